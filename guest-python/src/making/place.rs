//! The folder of images: who may work there, and how a finished image gets its name.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::MakeError;
use crate::stored::Manifest;

const LOCK: &str = ".lock";
/// Folders of builds that are not finished.
const UNFINISHED: &str = ".making-";
/// Digits of the hash in a folder's name.
const HASH_DIGITS: usize = 12;

/// The folder of images, locked for this process until it is dropped.
#[derive(Debug)]
pub struct Place {
    folder: PathBuf,
    _lock: File,
}

impl Place {
    /// Locks the folder, making it where it is missing, and removes what builds that were killed left there.
    ///
    /// # Errors
    ///
    /// [`MakeError::Busy`] while another process holds it.
    pub fn lock(folder: &Path) -> Result<Self, MakeError> {
        let failed = |source| MakeError::File { what: format!("{} can't be used", folder.display()), source };
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(failed)?;
        let lock = File::options().create(true).truncate(false).write(true).open(folder.join(LOCK)).map_err(failed)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(fs::TryLockError::WouldBlock) => return Err(MakeError::Busy(folder.to_path_buf())),
            Err(fs::TryLockError::Error(error)) => return Err(failed(error)),
        }
        let place = Self { folder: folder.to_path_buf(), _lock: lock };
        place.sweep().map_err(failed)?;
        Ok(place)
    }

    /// A folder for one build. It goes when it is dropped unfinished.
    pub(super) fn work(&self) -> Result<Work<'_>, MakeError> {
        Ok(Work { place: self, folder: self.folder_for_work()? })
    }

    pub(super) fn folder_for_work(&self) -> Result<TempDir, MakeError> {
        let made = tempfile::Builder::new()
            .prefix(UNFINISHED)
            .permissions(fs::Permissions::from_mode(0o700))
            .tempdir_in(&self.folder);
        made.map_err(|source| MakeError::File {
            what: format!("no folder can be made in {}", self.folder.display()),
            source,
        })
    }

    /// Removes unfinished builds and folders that no link names any more.
    fn sweep(&self) -> io::Result<()> {
        let entries: Vec<_> = fs::read_dir(&self.folder)?.collect::<io::Result<_>>()?;
        let named: Vec<PathBuf> = entries.iter().filter_map(|entry| fs::read_link(entry.path()).ok()).collect();
        for entry in entries {
            let is_named = named.iter().any(|name| name.as_os_str() == entry.file_name());
            if entry.file_type()?.is_dir() && !is_named {
                fs::remove_dir_all(entry.path())?;
            }
        }
        Ok(())
    }

    /// Makes `name` a link to `target`, in one step.
    fn link(&self, name: &str, target: &str) -> io::Result<()> {
        let folder = tempfile::Builder::new().prefix(UNFINISHED).tempdir_in(&self.folder)?;
        let link = folder.path().join(name);
        std::os::unix::fs::symlink(target, &link)?;
        fs::rename(link, self.folder.join(name))
    }
}

/// A build that is not finished.
pub(super) struct Work<'a> {
    place: &'a Place,
    folder: TempDir,
}

impl Work<'_> {
    pub(super) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Gives the finished image its name. What had the name before stays until the next build: a run may use its library.
    pub(super) fn publish(self, manifest: &Manifest) -> Result<(), MakeError> {
        let digits = &manifest.sha256[..HASH_DIGITS];
        let target = format!("{}-{digits}", manifest.name);
        let Self { place, folder } = self;
        let finish = || {
            let path = place.folder.join(&target);
            // The same inputs gave the same image: the new one is as good, and surely whole.
            if path.exists() {
                fs::remove_dir_all(&path)?;
            }
            fs::rename(folder.path(), &path)?;
            place.link(&manifest.name, &target)
        };
        finish().map_err(|source| MakeError::File { what: "the image can't be put in its place".to_owned(), source })
    }
}

/// Removes an image; `false` = there was none.
///
/// # Errors
///
/// When another process works there, or the files can't be removed.
pub fn remove(place: &Place, name: &str) -> Result<bool, MakeError> {
    let failed = |source| MakeError::File { what: format!("the image {name} can't be removed"), source };
    match fs::remove_file(place.folder.join(name)) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(failed(error)),
    }
    place.sweep().map_err(failed)?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stored::{FORMAT, MANIFEST};

    fn manifest(sha256: &str) -> Manifest {
        Manifest {
            format: FORMAT,
            name: "mine".to_owned(),
            from: "slim".to_owned(),
            python: "3.13".to_owned(),
            sha256: sha256.repeat(64),
            bytes: 0,
            exceptions: false,
            library: false,
            memory: 0,
            written: Vec::new(),
            modules: Vec::new(),
            compiler: String::new(),
            snapshot_sha256: String::new(),
            inputs: Vec::new(),
        }
    }

    fn entries(folder: &Path) -> Vec<String> {
        let mut names: Vec<String> =
            fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn two_builds_at_once_are_one_too_many() {
        let dir = tempfile::tempdir().unwrap();
        let first = Place::lock(dir.path()).unwrap();
        let second = Place::lock(dir.path()).unwrap_err();
        assert!(second.to_string().starts_with("another build of an image is under way in "), "{second}");
        drop(first);
        Place::lock(dir.path()).unwrap();
    }

    #[test]
    fn a_build_that_was_killed_leaves_nothing_to_the_next() {
        let dir = tempfile::tempdir().unwrap();
        let place = Place::lock(dir.path()).unwrap();
        let work = place.work().unwrap();
        fs::write(work.path().join("half"), "x").unwrap();
        // A killed process drops nothing.
        std::mem::forget(work);
        drop(place);
        assert_eq!(entries(dir.path()).len(), 2);
        let place = Place::lock(dir.path()).unwrap();
        assert_eq!(entries(dir.path()), [LOCK]);
        place.work().unwrap().publish(&manifest("a")).unwrap();
        assert_eq!(entries(dir.path()), [LOCK, "mine", "mine-aaaaaaaaaaaa"]);
    }

    #[test]
    fn a_new_image_takes_the_name_and_the_old_one_stays_for_its_runs() {
        let dir = tempfile::tempdir().unwrap();
        let place = Place::lock(dir.path()).unwrap();
        for hash in ["a", "b", "b"] {
            let work = place.work().unwrap();
            fs::write(work.path().join(MANIFEST), hash).unwrap();
            work.publish(&manifest(hash)).unwrap();
        }
        assert_eq!(entries(dir.path()), [LOCK, "mine", "mine-aaaaaaaaaaaa", "mine-bbbbbbbbbbbb"]);
        assert_eq!(fs::read_link(dir.path().join("mine")).unwrap(), Path::new("mine-bbbbbbbbbbbb"));
        assert!(remove(&place, "mine").unwrap());
        assert!(!remove(&place, "mine").unwrap());
        assert_eq!(entries(dir.path()), [LOCK]);
    }
}
