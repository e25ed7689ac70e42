//! Our own C files, and the module that they make with CPython.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::interpreter::ARCHIVES;
use super::sources::Sources;
use super::toolchain::{CFLAGS, LTO, Toolchain};
use super::{Layout, execute};

/// The shadow stack in linear memory. Its pages are touched only as deep as a script recurses; it lies below all data, so that an
/// overflow traps and does not overwrite anything.
pub(crate) const STACK_SIZE: u32 = 8 << 20;

/// Linear memory of the base. Close to what it needs before the heap grows: a sparse memory loses copy-on-write.
pub(crate) const INITIAL_MEMORY: u32 = 22 << 20;

const LIBRARIES: [&str; 9] = [
    "-lsqlite3",
    "-lz",
    "-lbz2",
    "-llzma",
    "-ldl",
    "-lwasi-emulated-signal",
    "-lwasi-emulated-getpid",
    "-lwasi-emulated-process-clocks",
    "-lm",
];

/// Compiles guest-python/base/*.c, links, and returns the module.
pub(crate) fn link(layout: &Layout, sources: &Sources, toolchain: &Toolchain) -> Result<Vec<u8>> {
    let python_includes =
        vec!["-I".into(), layout.python.clone().into(), "-I".into(), sources.cpython.join("Include").into()];
    let objects = [
        compile(layout, toolchain, "module", &python_includes)?,
        compile(layout, toolchain, "reactor", &python_includes)?,
        compile(layout, toolchain, "memory", &allocator_flags(sources, &python_includes))?,
        compile(layout, toolchain, "netdb", &[])?,
        compile(layout, toolchain, "string", &["-fno-builtin".into()])?,
        compile(layout, toolchain, "timezone", &zone_flags(sources))?,
    ];
    let wasm = layout.work.join("python.wasm");
    let mut command = toolchain.cc();
    command
        .args(CFLAGS)
        .arg(LTO)
        .arg("-s")
        .arg("-mexec-model=reactor")
        .arg(format!("-Wl,-z,stack-size={STACK_SIZE}"))
        .arg(format!("-Wl,--initial-memory={INITIAL_MEMORY}"))
        .arg("-Wl,--export=gloveport_streams")
        .args(objects)
        .args(ARCHIVES.map(|archive| layout.python.join(archive)))
        .arg(format!("-L{}/lib", layout.sysroot.display()))
        .args(LIBRARIES)
        .arg("-o")
        .arg(&wasm);
    execute(&mut command)?;
    std::fs::read(&wasm).with_context(|| format!("cannot read {}", wasm.display()))
}

fn compile(layout: &Layout, toolchain: &Toolchain, name: &str, flags: &[OsString]) -> Result<PathBuf> {
    let source = layout.base.join(format!("{name}.c"));
    let object = layout.objects.join(format!("{name}.o"));
    execute(toolchain.compile().args(["-Wall", "-Wextra"]).args(flags).arg(source).arg("-o").arg(&object))?;
    Ok(object)
}

/// memory.c includes dlmalloc, which is written for other warnings.
fn allocator_flags(sources: &Sources, python_includes: &[OsString]) -> Vec<OsString> {
    let mut flags = python_includes.to_vec();
    flags.extend(["-Wno-unused-function", "-Wno-unused-but-set-variable", "-Wno-sign-compare"].map(OsString::from));
    flags.push("-Wno-null-pointer-arithmetic".into());
    flags.push(path_definition("DLMALLOC_SOURCE", &sources.dlmalloc));
    flags
}

/// timezone.c includes a file of the toolchain's libc, which is written for other warnings.
fn zone_flags(sources: &Sources) -> Vec<OsString> {
    let musl = sources.ziglang.join("lib/libc/wasi/libc-top-half/musl/src");
    vec![
        "-Wno-unused-parameter".into(),
        "-Wno-parentheses".into(),
        "-Wno-sign-compare".into(),
        "-I".into(),
        musl.join("internal").into(),
        path_definition("MUSL_TZ_SOURCE", &musl.join("time/__tz.c")),
    ]
}

/// Defines a macro as the quoted path of a file to include.
fn path_definition(name: &str, path: &Path) -> OsString {
    let mut definition = OsString::from(format!("-D{name}=\""));
    definition.push(path);
    definition.push("\"");
    definition
}
