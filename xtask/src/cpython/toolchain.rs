//! The C compiler: zig's clang with its wasi-libc.

use std::path::PathBuf;
use std::process::Command;

use super::Layout;
use super::sources::Sources;

/// The target as zig names it.
pub(crate) const TARGET: &str = "wasm32-wasi";

/// Flags of every C file.
pub(crate) const CFLAGS: [&str; 4] = ["-O3", "-g0", "-fno-sanitize=undefined", "-Wno-date-time"];

/// Link-time optimization makes the interpreter 7–8 % faster. `configure` runs without: each of its hundreds of tests would link the
/// whole libc with it.
pub(crate) const LTO: &str = "-flto";

/// What wasi-libc only emulates, and only on request.
pub(crate) const EMULATION_DEFINES: [&str; 4] =
    ["-D_WASI_EMULATED_SIGNAL", "-D_WASI_EMULATED_PROCESS_CLOCKS", "-D_WASI_EMULATED_GETPID", "-D_WASI_EMULATED_MMAN"];

/// The value of `__DATE__` and `__TIME__` (2025-01-01), so that the output does not depend on the day of the build.
const SOURCE_DATE_EPOCH: &str = "1735689600";

/// Starts the tools of the toolchain.
pub(crate) struct Toolchain {
    zig: PathBuf,
    cache: PathBuf,
    prefix_map: String,
}

impl Toolchain {
    pub(crate) fn new(layout: &Layout, sources: &Sources) -> Self {
        Self {
            zig: sources.ziglang.join("zig"),
            cache: layout.work.join("zig-cache"),
            // Some error messages of CPython carry __FILE__.
            prefix_map: format!("-ffile-prefix-map={}=.", layout.work.display()),
        }
    }

    /// The compiler for one C file or a link, without flags.
    pub(crate) fn cc(&self) -> Command {
        let mut command = Command::new(&self.zig);
        command.args(["cc", "-target", TARGET]);
        self.set_environment(&mut command);
        command
    }

    /// The compiler for one C file of ours or of a library.
    pub(crate) fn compile(&self) -> Command {
        let mut command = self.cc();
        command.args(CFLAGS).arg(LTO).args(EMULATION_DEFINES).arg(&self.prefix_map).arg("-c");
        command
    }

    /// The archiver.
    pub(crate) fn ar(&self) -> Command {
        let mut command = Command::new(&self.zig);
        command.arg("ar");
        self.set_environment(&mut command);
        command
    }

    /// What `configure` needs to find the same tools.
    pub(crate) fn configure_variables(&self) -> Vec<(&'static str, String)> {
        let zig = self.zig.display();
        vec![
            ("CC", format!("{zig} cc -target {TARGET}")),
            ("CPP", format!("{zig} cc -target {TARGET} -E")),
            ("CXX", "false".to_owned()),
            ("AR", format!("{zig} ar")),
            ("RANLIB", format!("{zig} ranlib")),
            ("CFLAGS", format!("{} {}", CFLAGS.join(" "), self.prefix_map)),
        ]
    }

    /// Sets what zig and clang read from the environment.
    pub(crate) fn set_environment(&self, command: &mut Command) {
        command
            .env("ZIG_GLOBAL_CACHE_DIR", &self.cache)
            .env("ZIG_LOCAL_CACHE_DIR", &self.cache)
            .env("SOURCE_DATE_EPOCH", SOURCE_DATE_EPOCH);
    }
}
