//! What the guest finds while its snapshot is made.

use std::collections::BTreeSet;
use std::fs;
use std::io::Read as _;
use std::path::Path;

use sha2::{Digest as _, Sha256};
use tempfile::TempDir;

use super::wheel::{self, Package};
use super::{Base, FsPerms, LIBRARY_MOUNT, MakeError, Recipe, Start, adapter, read, snapshot, write};
use crate::engine::Exceptions;
use crate::stored::{Input, PRIVATE_CWD};
use crate::{SCIENCE, SHIM, hex};

/// Our own base and standard library, as they lie in this crate.
const OUR_BASE: &[u8] = include_bytes!("../../base/python.wasm.zst");
const OUR_LIBRARY: &[u8] = include_bytes!("../../base/stdlib.tar.zst");
/// What an adapted base runs to get to the point of its snapshot.
const START: &str = "start.py";
/// Name of the archive of modules, built into the interpreter.
const ARCHIVE: &str = "python315.zip";
/// Folder of added packages in the library.
const SITE: &str = "site";

/// The inputs, laid out.
pub(super) struct Boot {
    folder: TempDir,
    tmp: TempDir,
    base: Vec<u8>,
    adapted: bool,
    library: bool,
    pub(super) from: String,
    pub(super) python: &'static str,
    pub(super) modules: Vec<String>,
    pub(super) inputs: Vec<Input>,
}

impl Boot {
    pub(super) fn lay(recipe: &Recipe, work: &Path, library: &Path) -> Result<Self, MakeError> {
        let folder = |prefix: &str| {
            tempfile::Builder::new()
                .prefix(prefix)
                .tempdir_in(work)
                .map_err(|source| MakeError::File { what: "no folder can be made for the build".to_owned(), source })
        };
        let mut boot = Self {
            folder: folder("boot")?,
            tmp: folder("tmp")?,
            base: Vec::new(),
            adapted: false,
            library: false,
            from: "slim".to_owned(),
            python: "3.13",
            modules: Vec::new(),
            inputs: Vec::new(),
        };
        boot.lay_library_of_slim()?;
        boot.lay_files(SHIM)?;
        match &recipe.from {
            Base::Slim => boot.base = decompress(OUR_BASE)?,
            Base::Science(wheel) => boot.lay_science(wheel, library)?,
        }
        boot.lay_extra(recipe, library)?;
        settle(boot.folder.path())?;
        if boot.library {
            settle(library)?;
        }
        Ok(boot)
    }

    fn lay_library_of_slim(&self) -> Result<(), MakeError> {
        let archive = decompress(OUR_LIBRARY)?;
        tar::Archive::new(archive.as_slice())
            .unpack(self.folder.path())
            .map_err(|source| MakeError::File { what: "the standard library can't be unpacked".to_owned(), source })
    }

    fn lay_files(&mut self, files: &[(&str, &[u8])]) -> Result<(), MakeError> {
        for (name, data) in files {
            write(&self.folder.path().join(name), data)?;
            self.inputs.push(Input { name: (*name).to_owned(), sha256: hex(&Sha256::digest(data)) });
        }
        Ok(())
    }

    fn lay_science(&mut self, wheel: &Path, library: &Path) -> Result<(), MakeError> {
        let mut package = Package::open(wheel)?;
        self.input(wheel, wheel::PACKAGE_SHA256.to_owned());
        self.lay_files(SCIENCE)?;
        self.base = adapter::adapt(&package.python()?)
            .map_err(|source| MakeError::Guest { step: "adapting the interpreter", source })?;
        let modules = package.modules()?;
        write(&library.join(ARCHIVE), &modules)?;
        wheel::lay_matplotlib(&modules, &library.join("matplotlib"))?;
        self.modules = packages();
        (self.adapted, self.library, self.python) = (true, true, "3.15");
        self.from = format!("{} {}", wheel::PACKAGE, wheel::PACKAGE_VERSION);
        Ok(())
    }

    /// What a user adds: wheels into the library, and an order that the shim reads.
    fn lay_extra(&mut self, recipe: &Recipe, library: &Path) -> Result<(), MakeError> {
        if recipe.wheels.is_empty() && recipe.imports.is_empty() && recipe.run.is_none() {
            return Ok(());
        }
        let site = library.join(SITE);
        fs::create_dir_all(&site)
            .map_err(|source| MakeError::File { what: format!("{} can't be made", site.display()), source })?;
        for path in &recipe.wheels {
            self.modules.extend(wheel::add(path, &site)?);
            self.input(path, hex(&Sha256::digest(read(path)?)));
        }
        if let Some(path) = &recipe.run {
            let source = read(path)?;
            write(&self.folder.path().join("prepare.py"), &source)?;
            self.input(path, hex(&Sha256::digest(&source)));
            self.modules.push("prepared".to_owned());
        }
        self.library = true;
        self.modules = self.modules.drain(..).collect::<BTreeSet<_>>().into_iter().collect();
        let order = serde_json::json!({ "imports": recipe.imports, "run": recipe.run.is_some() }).to_string();
        self.inputs.push(Input { name: "order".to_owned(), sha256: hex(&Sha256::digest(&order)) });
        write(&self.folder.path().join("extra.json"), order.as_bytes())
    }

    fn input(&mut self, path: &Path, sha256: String) {
        let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
        self.inputs.push(Input { name, sha256 });
    }

    pub(super) fn is_adapted(&self) -> bool {
        self.adapted
    }

    pub(super) fn has_library(&self) -> bool {
        self.library
    }

    pub(super) fn exceptions(&self) -> Exceptions {
        if self.adapted { Exceptions::On } else { Exceptions::Off }
    }

    /// Runs the guest to the point of its snapshot.
    pub(super) fn snapshot(&self, library: &Path) -> Result<Vec<u8>, MakeError> {
        let mut grants = vec![(self.folder.path(), "/boot", FsPerms::ReadOnly)];
        if self.library {
            grants.push((library, LIBRARY_MOUNT, FsPerms::ReadOnly));
        }
        grants.push((self.tmp.path(), "/tmp", FsPerms::ReadWrite));
        // Only to stand in.
        grants.push((self.tmp.path(), PRIVATE_CWD, FsPerms::ReadOnly));
        let code = std::str::from_utf8(file_of(SCIENCE, START)).unwrap_or_default();
        let start = if self.adapted { Start::of_adapted_base(grants, code) } else { Start::of_our_base_with(grants) };
        snapshot::take(&self.base, &start)
            .map_err(|source| MakeError::Guest { step: "starting Python before the snapshot", source })
    }

    /// Removes what only the build needed.
    pub(super) fn clean_up(self, library: &Path) -> Result<(), MakeError> {
        let failed = |source| MakeError::File { what: "the build's own files can't be removed".to_owned(), source };
        self.folder.close().map_err(failed)?;
        self.tmp.close().map_err(failed)?;
        if !self.library && library.exists() {
            fs::remove_dir_all(library).map_err(failed)?;
        }
        Ok(())
    }
}

/// Gives everything in a folder the same time: the guest sees times of files, and the same inputs are to give the same snapshot.
fn settle(folder: &Path) -> Result<(), MakeError> {
    let settle_one = |path: &Path| fs::File::open(path)?.set_modified(std::time::UNIX_EPOCH + snapshot::SNAPSHOT_TIME);
    let walk = || -> std::io::Result<()> {
        let mut folders = vec![folder.to_path_buf()];
        while let Some(next) = folders.pop() {
            for entry in fs::read_dir(&next)? {
                let entry = entry?;
                if entry.file_type()?.is_dir() {
                    folders.push(entry.path());
                } else {
                    settle_one(&entry.path())?;
                }
            }
            settle_one(&next)?;
        }
        Ok(())
    };
    walk().map_err(|source| MakeError::File { what: "times of files can't be set".to_owned(), source })
}

/// The top-level modules of the science image, from the list that the slim image's hints are made of.
fn packages() -> Vec<String> {
    let source = std::str::from_utf8(file_of(SHIM, "_gp_imports.py")).unwrap_or_default();
    let list = source.split_once("_IN_SCIENCE = frozenset((").and_then(|(_, rest)| rest.split_once("))"));
    let names = list.map_or("", |(names, _)| names).split(',').map(|name| name.trim().trim_matches('"'));
    let mut names: Vec<String> = names.filter(|name| !name.is_empty()).map(str::to_owned).collect();
    names.sort();
    names
}

fn file_of<'a>(files: &[(&str, &'a [u8])], name: &str) -> &'a [u8] {
    files.iter().find(|(known, _)| *known == name).map_or(&[], |(_, data)| data)
}

fn decompress(data: &[u8]) -> Result<Vec<u8>, MakeError> {
    let mut decoded = Vec::new();
    let mut decode = || -> std::io::Result<usize> {
        let mut decoder = ruzstd::decoding::StreamingDecoder::new(data).map_err(std::io::Error::other)?;
        decoder.read_to_end(&mut decoded)
    };
    decode().map_err(|source| MakeError::File { what: "this program is damaged".to_owned(), source })?;
    Ok(decoded)
}
