//! The images that a backend can run: the one that the program carries, and those that `gloveport image build` made.
//!
//! A built image is a directory `NAME-HASH` below `images` in the cache, and a link `NAME` to it, so that a new build takes an old one's place in one
//! step. Machine code from there is mapped only when directory and files belong to this user alone and have the hash that the manifest says.

#![expect(clippy::disallowed_methods, reason = "this file reads the directory of images")]

use std::collections::HashMap;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use gloveport_guest::engine::Exceptions;
use gloveport_guest::stored::{CODE, FORMAT, LIBRARY, MANIFEST, Manifest};

use super::engine::{About, Loaded};
use super::image::{self, Expected};
use super::{Allocation, WasiOptions};
use crate::backend::{BackendError, ImageUsed};
use crate::config::ImageChoice;
pub use crate::config::SLIM;
#[cfg(feature = "making")]
pub use gloveport_guest::making;

/// A longer manifest is none.
const MAX_MANIFEST: u64 = 1 << 20;
/// Writable by others.
const OTHERS_WRITE: u32 = 0o022;

/// An image in a directory, its manifest read.
#[derive(Debug, Clone)]
pub struct Stored {
    /// The directory.
    pub directory: PathBuf,
    /// What it says of itself.
    pub manifest: Manifest,
}

/// The directory of images in a cache directory.
#[must_use]
pub fn directory(cache_dir: &Path) -> PathBuf {
    cache_dir.join("images")
}

/// The built images, by name. Entries that can't be read are left out, with a line in the log.
#[must_use]
pub fn list(cache_dir: &Path) -> Vec<Stored> {
    let entries = fs::read_dir(directory(cache_dir)).into_iter().flatten().flatten();
    let links = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_symlink()));
    let names = links.filter_map(|entry| entry.file_name().into_string().ok());
    let mut found: Vec<Stored> = names
        .filter_map(|name| {
            find(cache_dir, &name)
                .inspect_err(|error| tracing::warn!(%error, image = name, "an image can't be read"))
                .ok()
        })
        .collect();
    found.sort_by(|a, b| a.manifest.name.cmp(&b.manifest.name));
    found
}

/// A built image by its name.
///
/// # Errors
/// When there is none, or what is there is not whole.
pub fn find(cache_dir: &Path, name: &str) -> Result<Stored, BackendError> {
    let missing = || {
        BackendError::setup(format!(
            "there is no image {name}; `gloveport image build {name}` makes it, `gloveport image list` shows what is there"
        ))
    };
    let images = directory(cache_dir);
    let target = match fs::read_link(images.join(name)) {
        Ok(target) => target,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(missing()),
        Err(error) => return Err(unreadable(name, &error)),
    };
    // A link of ours names a directory beside it.
    if target.file_name() != Some(target.as_os_str()) {
        return Err(broken(name, "its link leads elsewhere"));
    }
    let stored = read(&images.join(target))?;
    if stored.manifest.name == name { Ok(stored) } else { Err(broken(name, "its manifest has another name")) }
}

/// The image in a directory.
///
/// # Errors
/// When the directory holds none that this version can read, or other users can change it.
pub fn read(directory: &Path) -> Result<Stored, BackendError> {
    let shown = directory.display().to_string();
    // The name may be a link, as a built image's is; what counts is who can change the directory.
    let directory = &directory.canonicalize().map_err(|error| unreadable(&shown, &error))?;
    for path in [directory.to_path_buf(), directory.join(MANIFEST)] {
        let meta = fs::symlink_metadata(&path).map_err(|error| unreadable(&shown, &error))?;
        if meta.uid() != rustix::process::geteuid().as_raw() || meta.mode() & OTHERS_WRITE != 0 {
            return Err(broken(&shown, "it belongs to another user, or others can change it"));
        }
        if meta.is_file() && meta.len() > MAX_MANIFEST {
            return Err(broken(&shown, "its manifest is too long"));
        }
    }
    let text = fs::read(directory.join(MANIFEST)).map_err(|error| unreadable(&shown, &error))?;
    let manifest: Manifest =
        serde_json::from_slice(&text).map_err(|_| broken(&shown, "its manifest is of another version of Gloveport"))?;
    if manifest.format != FORMAT || !ImageChoice::is_name(&manifest.name) {
        return Err(broken(&shown, "its manifest is of another version of Gloveport"));
    }
    Ok(Stored { directory: directory.to_path_buf(), manifest })
}

fn unreadable(image: &str, error: &io::Error) -> BackendError {
    BackendError::setup(format!("the image {image} can't be read: {error}"))
}

fn broken(image: &str, problem: &str) -> BackendError {
    BackendError::setup(format!("the image {image} can't be used: {problem}; `gloveport image build` makes it again"))
}

impl Stored {
    /// Checks that the machine code is what the manifest says.
    ///
    /// # Errors
    /// When it is not.
    pub fn check(&self) -> Result<PathBuf, BackendError> {
        let Manifest { name, sha256, bytes, .. } = &self.manifest;
        let code = self.directory.join(CODE);
        let expected = Expected { name, sha256, bytes: *bytes };
        match image::is_intact(&expected, &code) {
            Ok(true) => Ok(code),
            Ok(false) => Err(broken(name, "its machine code is not what was built")),
            Err(error) => Err(unreadable(name, &error)),
        }
    }

    /// Checks, maps and links it.
    fn load(&self, allocation: Allocation) -> Result<Loaded, BackendError> {
        let code = self.check()?;
        let manifest = &self.manifest;
        let about = About {
            exceptions: if manifest.exceptions { Exceptions::On } else { Exceptions::Off },
            library: manifest.library.then(|| self.directory.join(LIBRARY)),
            written: manifest.written.clone(),
            used: ImageUsed { name: manifest.name.clone(), sha256: manifest.sha256.clone() },
        };
        Loaded::new(&code, about, allocation)
    }

    /// Checks every byte of the machine code, and that this program can run it.
    ///
    /// # Errors
    /// When it was made by another version or for another processor, or is not whole.
    pub fn verify(&self) -> Result<(), BackendError> {
        let name = &self.manifest.name;
        let code = fs::File::open(self.directory.join(CODE)).map_err(|error| unreadable(name, &error))?;
        if image::hash(code).map_err(|error| unreadable(name, &error))? != self.manifest.sha256 {
            return Err(broken(name, "its machine code is not what was built"));
        }
        self.load(Allocation::OnDemand).map(drop)
    }
}

/// The images of one backend: the chosen one, and with [`ImageChoice::Auto`] those that scripts turned out to need.
pub(super) struct Images {
    first: Arc<Loaded>,
    automatic: bool,
    cache_dir: PathBuf,
    allocation: Allocation,
    /// By directory: two images may have the same machine code.
    others: Mutex<HashMap<PathBuf, Arc<Loaded>>>,
}

impl Images {
    pub(super) fn new(options: &WasiOptions) -> Result<Self, BackendError> {
        let first = match &options.image {
            ImageChoice::Slim | ImageChoice::Auto => slim(options)?,
            ImageChoice::Named(name) => find(&options.cache_dir, name)?.load(options.allocation)?,
            ImageChoice::Directory(path) => read(path)?.load(options.allocation)?,
        };
        Ok(Self {
            first: Arc::new(first),
            automatic: options.image == ImageChoice::Auto,
            cache_dir: options.cache_dir.clone(),
            allocation: options.allocation,
            others: Mutex::default(),
        })
    }

    pub(super) fn first(&self) -> &Arc<Loaded> {
        &self.first
    }

    /// The images among which a script's imports decide; empty when one was chosen.
    pub(super) fn candidates(&self) -> Vec<Stored> {
        if self.automatic { list(&self.cache_dir) } else { Vec::new() }
    }

    /// A built image, mapped once.
    pub(super) fn open(&self, stored: &Stored) -> Result<Arc<Loaded>, BackendError> {
        let mut others = self.others.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(loaded) = others.get(&stored.directory) {
            return Ok(Arc::clone(loaded));
        }
        let loaded = Arc::new(stored.load(self.allocation)?);
        others.insert(stored.directory.clone(), Arc::clone(&loaded));
        Ok(loaded)
    }
}

fn slim(options: &WasiOptions) -> Result<Loaded, BackendError> {
    let image = gloveport_guest::image();
    let code = image::lay(&image, &options.cache_dir)?;
    let about = About {
        exceptions: Exceptions::Off,
        library: None,
        written: image.written.to_vec(),
        used: ImageUsed { name: SLIM.to_owned(), sha256: image.sha256.to_owned() },
    };
    Loaded::new(&code, about, options.allocation)
}
