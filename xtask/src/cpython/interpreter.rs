//! CPython itself, as a static library without its command-line program.

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use super::sources::Sources;
use super::toolchain::{LTO, Toolchain};
use super::{Layout, execute, profile};

/// Answers for `configure` beyond CPython's own for WASI.
const CONFIG_SITE: &str = "\
# Declared by the toolchain's headers, missing in its libc.
ac_cv_header_libintl_h=no
ac_cv_header_sys_epoll_h=no
ac_cv_header_sys_timerfd_h=no
ac_cv_func_epoll_create=no
ac_cv_func_epoll_create1=no
ac_cv_func_getprotobyname=no
ac_cv_func_setgroups=no
ac_cv_func_timerfd_create=no
# An emulation that allocates and copies; pymalloc takes its arenas from malloc instead.
ac_cv_func_mmap=no
# guest-python/base/timezone.c brings a working one; configure cannot run a test.
ac_cv_working_tzset=yes
";

/// Included into each file: a declaration that the toolchain's <time.h> leaves out, and one place for sources whatever the work folder is.
const PRELUDE: &str = "\
void tzset(void);
#ifdef VPATH
#undef VPATH
#define VPATH \".\"
#endif
";

const CONFIGURE_ARGUMENTS: [&str; 9] = [
    "--host=wasm32-unknown-wasip1",
    "--build=x86_64-pc-linux-gnu",
    "--prefix=/usr/local",
    "--with-suffix=.wasm",
    "--with-pymalloc",
    "--without-mimalloc",
    "--without-ensurepip",
    "--disable-ipv6",
    "--disable-test-modules",
];

/// The libraries of the sysroot: what `configure` would ask pkg-config for.
const LIBRARY_VARIABLES: [(&str, &str); 8] = [
    ("ZLIB_CFLAGS", " "),
    ("ZLIB_LIBS", "-lz"),
    ("BZIP2_CFLAGS", " "),
    ("BZIP2_LIBS", "-lbz2"),
    ("LIBLZMA_CFLAGS", " "),
    ("LIBLZMA_LIBS", "-llzma"),
    ("LIBSQLITE3_CFLAGS", " "),
    ("LIBSQLITE3_LIBS", "-lsqlite3"),
];

/// The archives that are linked, relative to CPython's build folder.
pub(crate) const ARCHIVES: [&str; 4] = [
    "libpython3.13.a",
    "Modules/expat/libexpat.a",
    "Modules/_decimal/libmpdec/libmpdec.a",
    "Modules/_hacl/libHacl_Hash_SHA2.a",
];

/// Builds [`ARCHIVES`].
pub(crate) fn build(layout: &Layout, sources: &Sources, toolchain: &Toolchain, python: &Path) -> Result<()> {
    configure(layout, sources, toolchain, python)?;
    let mut make = Command::new("make");
    let jobs = std::thread::available_parallelism()?;
    let flags = format!("EXTRA_CFLAGS={LTO} {}", profile::flags(layout)?);
    make.arg(format!("-j{jobs}")).arg(flags).args(ARCHIVES).current_dir(&layout.python);
    toolchain.set_environment(&mut make);
    execute(&mut make)
}

fn configure(layout: &Layout, sources: &Sources, toolchain: &Toolchain, python: &Path) -> Result<()> {
    let site = layout.work.join("config.site");
    std::fs::write(&site, CONFIG_SITE)?;
    let prelude = layout.sysroot.join("include/gloveport_prelude.h");
    std::fs::write(&prelude, PRELUDE)?;
    let wasi_site = sources.cpython.join("Tools/wasm/config.site-wasm32-wasi");

    let mut configure = Command::new(sources.cpython.join("configure"));
    configure
        .args(CONFIGURE_ARGUMENTS)
        .arg(format!("--with-build-python={}", python.display()))
        .current_dir(&layout.python)
        .envs(toolchain.configure_variables())
        .envs(LIBRARY_VARIABLES)
        .env("CONFIG_SITE", format!("{} {}", wasi_site.display(), site.display()))
        // SOCK_RAW: used by `_socket` without a check, absent from WASI.
        .env("CPPFLAGS", format!("-I{}/include -include {} -DSOCK_RAW=3", layout.sysroot.display(), prelude.display()))
        .env("LDFLAGS", format!("-L{}/lib", layout.sysroot.display()))
        .env("OPT", "-DNDEBUG -O3 -fwrapv -Wall -Wno-macro-redefined")
        .env("PKG_CONFIG", "false")
        .env("HOSTRUNNER", "true");
    toolchain.set_environment(&mut configure);
    execute(&mut configure)
}
