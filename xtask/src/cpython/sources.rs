//! What the base is built from: pinned, fetched, checked.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::{Layout, execute, sha256};

/// A source, as it is recorded in `provenance.toml`.
pub(crate) struct Pin {
    pub(crate) name: &'static str,
    pub(crate) version: &'static str,
    /// Where it comes from; also the address for people who build without Debian.
    pub(crate) origin: &'static str,
    /// SHA-256 of the archive: tarball, crate or wheel.
    pub(crate) sha256: &'static str,
    /// SPDX expression for the part that ends up in the base.
    pub(crate) license: &'static str,
}

pub(crate) const CPYTHON: Pin = Pin {
    name: "cpython",
    version: "3.13.15",
    origin: "Debian source package python3.13 3.13.15-1, python3.13_3.13.15.orig.tar.xz",
    sha256: "1e66a7945a48390ee4c2a4268a0e4185884059a13c4aab6d148aa208deea4a76",
    license: "PSF-2.0",
};

/// Only its dlmalloc is used; the rest of the libc comes with the toolchain.
pub(crate) const WASI_LIBC: Pin = Pin {
    name: "dlmalloc",
    version: "2.8.6",
    origin: "Debian source package wasi-libc 0.0~git20220510.9886d3d-2, wasi-libc_0.0~git20220510.9886d3d.orig.tar.xz",
    sha256: "8f9b802736a856942839d32966937c389f46e9f156415a549a6675b7535e5f74",
    license: "CC0-1.0",
};

pub(crate) const ZLIB: Pin = Pin {
    name: "zlib",
    version: "1.1.33",
    origin: "crates.io, libz-sys",
    sha256: "fee3f59f4321dab0c78d828942e7aa09d0bd8ad6e78a501977e6bf3d02938045",
    license: "Zlib",
};

pub(crate) const BZIP2: Pin = Pin {
    name: "bzip2",
    version: "0.1.13+1.0.8",
    origin: "crates.io, bzip2-sys",
    sha256: "225bff33b2141874fe80d71e07d6eec4f85c5c216453dd96388240f96e1acc14",
    license: "bzip2-1.0.6",
};

pub(crate) const LZMA: Pin = Pin {
    name: "liblzma",
    version: "0.4.9",
    origin: "crates.io, liblzma-sys",
    sha256: "7c7e3581f367a78d7b7e7ae948d023310556f0cfc13156c2e4e00e25616492b9",
    license: "0BSD",
};

pub(crate) const SQLITE: Pin = Pin {
    name: "sqlite",
    version: "0.38.2",
    origin: "crates.io, libsqlite3-sys",
    sha256: "f1d20bef17f513b9b3004532233187769cd072d790971f4e4da0e346eb6401e8",
    license: "blessing",
};

/// The toolchain; its libc is linked into the base.
pub(crate) const ZIGLANG: Pin = Pin {
    name: "ziglang",
    version: "0.17.1",
    origin: "PyPI, ziglang-0.17.1-py3-none-manylinux_2_12_x86_64.manylinux2010_x86_64.musllinux_1_1_x86_64.whl",
    sha256: "ea6cc5d87b033cf0aedfbc8f9549a908cae6c50ac31f1698188fa48a74524b54",
    license: "MIT AND Apache-2.0 WITH LLVM-exception",
};

pub(crate) const TZDATA: Pin = Pin {
    name: "tzdata",
    version: "2026.6",
    origin: "PyPI, tzdata-2026.6-py2.py3-none-any.whl",
    sha256: "0a10eec6e13ef16b627fabed9a5f2ba61a62b1c67f327305f4e7e412a70b4aec",
    license: "Apache-2.0",
};

/// All pins, in the order of `provenance.toml`.
pub(crate) const PINS: [&Pin; 8] = [&CPYTHON, &WASI_LIBC, &ZLIB, &BZIP2, &LZMA, &SQLITE, &ZIGLANG, &TZDATA];

/// The crates whose C sources are used: crate name, pin, features.
const CRATES: [(&str, &Pin, &str); 4] = [
    ("libz-sys", &ZLIB, r#"["static"]"#),
    ("bzip2-sys", &BZIP2, "[]"),
    ("liblzma-sys", &LZMA, r#"["static"]"#),
    ("libsqlite3-sys", &SQLITE, r#"["bundled"]"#),
];

/// A source package of Debian.
struct DebianSource {
    suite: &'static str,
    /// Name and version as `apt-get source` takes them.
    package: &'static str,
    /// The upstream tarball among the package's files.
    tarball: &'static str,
    /// The folder in the tarball.
    folder: &'static str,
    pin: &'static Pin,
}

const DEBIAN_CPYTHON: DebianSource = DebianSource {
    suite: "testing",
    package: "python3.13=3.13.15-1",
    tarball: "python3.13_3.13.15.orig.tar.xz",
    folder: "Python-3.13.15",
    pin: &CPYTHON,
};

const DEBIAN_WASI_LIBC: DebianSource = DebianSource {
    suite: "bookworm",
    package: "wasi-libc=0.0~git20220510.9886d3d-2",
    tarball: "wasi-libc_0.0~git20220510.9886d3d.orig.tar.xz",
    folder: "wasi-libc-0.0~git20220510.9886d3d",
    pin: &WASI_LIBC,
};

/// Where Debian machines name their mirror.
const DEBIAN_SOURCES_LIST: &str = "/etc/apt/sources.list.d/debian.sources";

/// Where the unpacked sources lie.
pub(crate) struct Sources {
    pub(crate) cpython: PathBuf,
    /// The file malloc.c of dlmalloc.
    pub(crate) dlmalloc: PathBuf,
    pub(crate) zlib: PathBuf,
    pub(crate) bzip2: PathBuf,
    pub(crate) liblzma: PathBuf,
    pub(crate) sqlite: PathBuf,
    /// The Python package folder of ziglang, with `zig` and `lib/`.
    pub(crate) ziglang: PathBuf,
    /// The wheel itself.
    pub(crate) tzdata_wheel: PathBuf,
    pub(crate) tzdata_licenses: PathBuf,
}

/// Tarballs that the user has; what is missing is fetched.
pub(crate) struct Tarballs<'a> {
    pub(crate) cpython: Option<&'a Path>,
    pub(crate) wasi_libc: Option<&'a Path>,
}

/// Fetches, checks and unpacks everything into `layout.sources`.
pub(crate) fn fetch(layout: &Layout, python: &Path, tarballs: &Tarballs<'_>) -> Result<Sources> {
    let root = &layout.sources;
    let cpython = DEBIAN_CPYTHON.unpack(root, tarballs.cpython)?;
    let wasi_libc = DEBIAN_WASI_LIBC.unpack(root, tarballs.wasi_libc)?;
    let crates = fetch_crates(root)?;
    let tzdata_wheel = fetch_wheel(root, python, &TZDATA)?;
    let tzdata = unpack_wheel(root, python, &tzdata_wheel, "tzdata")?;
    let toolchain = unpack_wheel(root, python, &fetch_wheel(root, python, &ZIGLANG)?, "toolchain")?;
    Ok(Sources {
        cpython,
        dlmalloc: wasi_libc.join("dlmalloc/src/malloc.c"),
        zlib: crates.join("libz-sys/src/zlib"),
        bzip2: crates.join("bzip2-sys/bzip2-1.0.8"),
        liblzma: crates.join("liblzma-sys"),
        sqlite: crates.join("libsqlite3-sys/sqlite3"),
        ziglang: toolchain.join("ziglang"),
        tzdata_wheel,
        tzdata_licenses: tzdata.join(format!("tzdata-{}.dist-info/licenses", TZDATA.version)),
    })
}

fn check(path: &Path, pin: &Pin) -> Result<()> {
    let data = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    let actual = sha256(&data);
    ensure!(
        actual == pin.sha256,
        "{} is not {} {}: SHA-256 {actual}, expected {}",
        path.display(),
        pin.name,
        pin.version,
        pin.sha256
    );
    Ok(())
}

/// The unpacked sources of CPython alone, below `root`.
pub(crate) fn unpack_cpython(root: &Path, tarball: Option<&Path>) -> Result<PathBuf> {
    DEBIAN_CPYTHON.unpack(root, tarball)
}

impl DebianSource {
    /// Checks and unpacks `tarball`, or else the one that Debian serves, and returns the folder.
    fn unpack(&self, root: &Path, tarball: Option<&Path>) -> Result<PathBuf> {
        let tarball = match tarball {
            Some(path) => path.to_owned(),
            None => self.download(root)?,
        };
        check(&tarball, self.pin)?;
        execute(Command::new("tar").arg("-C").arg(root).arg("-xf").arg(&tarball))?;
        let folder = root.join(self.folder);
        ensure!(folder.is_dir(), "{} does not contain {}", tarball.display(), self.folder);
        Ok(folder)
    }

    /// Downloads the unmodified upstream tarball. What apt knows and installs on this machine is not touched: lists and
    /// configuration are of this build's own.
    fn download(&self, root: &Path) -> Result<PathBuf> {
        let list = std::fs::read_to_string(DEBIAN_SOURCES_LIST)
            .with_context(|| format!("no {DEBIAN_SOURCES_LIST}; pass the tarball ({})", self.pin.origin))?;
        let apt = root.join("apt").join(self.suite);
        let (parts, lists) = (apt.join("parts"), apt.join("lists"));
        std::fs::create_dir_all(&parts)?;
        std::fs::create_dir_all(lists.join("partial"))?;
        std::fs::write(parts.join("sources.sources"), source_stanza(&list, self.suite)?)?;
        let options = [
            "Dir::Etc::sourcelist=/dev/null".to_owned(),
            format!("Dir::Etc::sourceparts={}", parts.display()),
            format!("Dir::State::lists={}", lists.display()),
        ];
        let apt_get = |arguments: &[&str]| {
            let mut command = Command::new("apt-get");
            for option in &options {
                command.args(["-o", option]);
            }
            execute(command.args(arguments).current_dir(&apt))
        };
        apt_get(&["update"])?;
        apt_get(&["source", "--download-only", self.package])?;
        Ok(apt.join(self.tarball))
    }
}

/// The first stanza of a deb822 sources list, turned to the source packages of a suite.
fn source_stanza(list: &str, suite: &str) -> Result<String> {
    let mut stanza = String::new();
    for line in list.lines().skip_while(|line| line.trim().is_empty()).take_while(|line| !line.trim().is_empty()) {
        match line.split_once(':') {
            Some(("Types", _)) => stanza.push_str("Types: deb-src"),
            Some(("Suites", _)) => stanza.push_str(&format!("Suites: {suite}")),
            _ => stanza.push_str(line),
        }
        stanza.push('\n');
    }
    ensure!(stanza.contains("URIs:"), "{DEBIAN_SOURCES_LIST} has no stanza with a mirror");
    Ok(stanza)
}

/// Lets cargo fetch the crates that carry the C libraries, and returns the folder they lie in.
fn fetch_crates(root: &Path) -> Result<PathBuf> {
    let scratch = root.join("crates");
    std::fs::create_dir_all(scratch.join("src"))?;
    std::fs::write(scratch.join("src/lib.rs"), "")?;
    let mut manifest = String::from(
        "[package]\nname = \"sources\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[workspace]\n\n[dependencies]\n",
    );
    for (name, pin, features) in CRATES {
        // Cargo compares versions without the part after the plus sign.
        let version = pin.version.split('+').next().unwrap_or(pin.version);
        manifest.push_str(&format!("{name} = {{ version = \"={version}\", features = {features} }}\n"));
    }
    std::fs::write(scratch.join("Cargo.toml"), manifest)?;
    execute(Command::new("cargo").args(["vendor", "--quiet", "vendor"]).current_dir(&scratch))?;
    let vendored = scratch.join("vendor");
    for (name, pin, _) in CRATES {
        check_crate(&vendored.join(name), pin)?;
    }
    Ok(vendored)
}

/// Cargo has checked each file against the archive; its record of the archive's hash is compared with the pin.
fn check_crate(folder: &Path, pin: &Pin) -> Result<()> {
    let record = std::fs::read(folder.join(".cargo-checksum.json"))?;
    let record: serde_json::Value = serde_json::from_slice(&record)?;
    let actual = record["package"].as_str().context("cargo recorded no checksum")?;
    ensure!(actual == pin.sha256, "{} has SHA-256 {actual}, expected {}", folder.display(), pin.sha256);
    Ok(())
}

/// Downloads one wheel and checks it.
fn fetch_wheel(root: &Path, python: &Path, pin: &Pin) -> Result<PathBuf> {
    let wheels = root.join("wheels");
    let requirement = format!("{}=={}", pin.name, pin.version);
    let mut command = Command::new(python);
    command.args([
        "-m",
        "pip",
        "download",
        "--quiet",
        "--disable-pip-version-check",
        "--no-deps",
        "--only-binary=:all:",
    ]);
    execute(command.arg("--dest").arg(&wheels).arg(requirement))?;
    let file = pin.origin.rsplit(' ').next().unwrap_or(pin.origin);
    let wheel = wheels.join(file);
    ensure!(wheel.is_file(), "pip did not choose {file}; the hash of this platform's wheel is not pinned yet");
    check(&wheel, pin)?;
    Ok(wheel)
}

/// Installs a wheel into a folder of its own, which leaves the Python installation as it is.
fn unpack_wheel(root: &Path, python: &Path, wheel: &Path, folder: &str) -> Result<PathBuf> {
    let target = root.join(folder);
    let mut command = Command::new(python);
    command.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--no-index"]);
    execute(command.arg("--target").arg(&target).arg(wheel))?;
    Ok(target)
}
