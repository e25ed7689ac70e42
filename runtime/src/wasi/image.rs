//! Lays the guest's machine code in a cache directory, checked, and maps it from there.
//!
//! Mapping machine code is running it, so nothing is mapped whose bytes are not known to be the ones that this build carries. Hashing 70 MB takes longer
//! than a whole run; so the hash is computed when a file is written, or when it was touched since, and its identity is written beside it: the inode change time can't be set back by
//! whoever changes the content.

#![expect(clippy::disallowed_methods, reason = "this file owns the cache of the guest image")]

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use gloveport_guest::Image;
use sha2::{Digest as _, Sha256};

use super::private_dir::make_private;
use crate::backend::BackendError;

/// Machine code that nobody used for so long is of a version that is gone.
const STALE: Duration = Duration::from_secs(30 * 24 * 3600);
/// Beginning of the names of files that are not finished.
const UNFINISHED: &str = ".unpack-";

/// Returns the path of the image's machine code, unpacking it first where it is missing or not intact.
pub(super) fn lay(image: &Image, cache_dir: &Path) -> Result<PathBuf, BackendError> {
    let failed = |error: io::Error| BackendError::Setup {
        message: format!("the guest image can't be unpacked into {}: {error}", cache_dir.display()),
        source: Some(error.into()),
    };
    make_private(cache_dir).map_err(failed)?;
    let path = cache_dir.join(format!("{}-{}.cwasm", image.name, image.sha256));
    let expected = Expected { name: image.name, sha256: image.sha256, bytes: image.len as u64 };
    if is_intact(&expected, &path).map_err(failed)? {
        return Ok(path);
    }
    tracing::info!(image = image.name, "unpacking the guest image");
    let code = image
        .unpack()
        .map_err(|error| BackendError::Setup { message: error.to_string(), source: Some(error.into()) })?;
    write_atomically(&path, &code).map_err(failed)?;
    record_identity(&path).map_err(failed)?;
    sweep(cache_dir, image.name, &path);
    Ok(path)
}

/// Removes what other versions left here and nobody used for long. Whoever has it mapped keeps it.
fn sweep(cache_dir: &Path, name: &str, kept: &Path) {
    for entry in fs::read_dir(cache_dir).into_iter().flatten().flatten() {
        let file_name = entry.file_name();
        let is_ours = file_name.to_str().is_some_and(|file| {
            file.starts_with(UNFINISHED)
                || file.strip_prefix(name).is_some_and(|rest| rest.starts_with('-') && rest.ends_with(".cwasm"))
        });
        let is_other = entry.path() != kept;
        if is_ours && is_other && entry.metadata().is_ok_and(|meta| meta.is_file() && is_stale(&meta)) {
            tracing::debug!(file = %file_name.display(), "removing machine code that nobody used for long");
            let _ = fs::remove_file(identity_path(&entry.path()));
            let _ = fs::remove_file(entry.path());
        }
    }
}

fn is_stale(meta: &fs::Metadata) -> bool {
    let used = [meta.accessed(), meta.modified()].into_iter().flatten().max();
    used.is_some_and(|used| SystemTime::now().duration_since(used).is_ok_and(|age| age > STALE))
}

/// What a file of machine code must be.
pub(super) struct Expected<'a> {
    pub(super) name: &'a str,
    pub(super) sha256: &'a str,
    pub(super) bytes: u64,
}

/// Whether the file is there and holds the image. A file that is there and holds something else is not an error: it is replaced.
pub(super) fn is_intact(image: &Expected<'_>, path: &Path) -> io::Result<bool> {
    let file = match OpenOptions::new().read(true).custom_flags(no_follow()).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error),
    };
    let meta = file.metadata()?;
    let ours = meta.uid() == rustix::process::geteuid().as_raw() && meta.mode() & 0o022 == 0;
    if !meta.is_file() || !ours || meta.len() != image.bytes {
        return Ok(false);
    }
    if fs::read_to_string(identity_path(path)).is_ok_and(|known| known == identity(&meta)) {
        return Ok(true);
    }
    tracing::debug!(image = image.name, "the unpacked guest image was touched; checking its hash");
    let intact = hash(file)? == image.sha256;
    if intact {
        record_identity(path)?;
    }
    Ok(intact)
}

pub(super) fn hash(mut file: File) -> io::Result<String> {
    let mut hasher = Sha256::new();
    io::copy(&mut file, &mut hasher)?;
    Ok(hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

fn record_identity(path: &Path) -> io::Result<()> {
    let identity = identity(&fs::symlink_metadata(path)?);
    write_atomically(&identity_path(path), identity.as_bytes())
}

fn identity_path(path: &Path) -> PathBuf {
    path.with_extension("checked")
}

/// What changes when the file is replaced or written to.
fn identity(meta: &fs::Metadata) -> String {
    let (dev, ino, len) = (meta.dev(), meta.ino(), meta.len());
    format!("{dev} {ino} {len} {}.{:09} {}.{:09}\n", meta.mtime(), meta.mtime_nsec(), meta.ctime(), meta.ctime_nsec())
}

/// Several processes may unpack at once: each writes a file of its own, and the last rename wins with the same bytes.
fn write_atomically(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let parent = path.parent().unwrap_or(Path::new("."));
    let mut file = tempfile::Builder::new().prefix(UNFINISHED).tempfile_in(parent)?;
    file.write_all(bytes)?;
    file.persist(path)?;
    Ok(())
}

fn no_follow() -> i32 {
    // The flags are small positive numbers on every platform.
    rustix::fs::OFlags::NOFOLLOW.bits().cast_signed()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache() -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let cache = dir.path().join("cache");
        (dir, cache)
    }

    #[test]
    fn e18_a_tampered_image_is_replaced_before_it_is_mapped() {
        let (_dir, cache) = cache();
        let image = gloveport_guest::image();
        let path = lay(&image, &cache).unwrap();
        let mut bytes = fs::read(&path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        fs::write(&path, &bytes).unwrap();
        let expected = Expected { name: image.name, sha256: image.sha256, bytes: image.len as u64 };
        assert!(!is_intact(&expected, &path).unwrap());
        assert_eq!(lay(&image, &cache).unwrap(), path);
        assert_eq!(hash(File::open(&path).unwrap()).unwrap(), image.sha256);
    }

    #[test]
    fn e18_a_link_in_place_of_the_image_is_refused() {
        let (dir, cache) = cache();
        let image = gloveport_guest::image();
        let path = lay(&image, &cache).unwrap();
        let elsewhere = dir.path().join("elsewhere");
        fs::rename(&path, &elsewhere).unwrap();
        std::os::unix::fs::symlink(&elsewhere, &path).unwrap();
        assert!(matches!(lay(&image, &cache), Err(BackendError::Setup { .. })));
    }

    #[test]
    fn what_nobody_used_for_long_goes_when_a_new_version_comes() {
        let (_dir, cache) = cache();
        let image = gloveport_guest::image();
        make_private(&cache).unwrap();
        let long_ago = SystemTime::now() - STALE - Duration::from_secs(60);
        for (name, time) in [
            ("cpython-3.13-old.cwasm", long_ago),
            (".unpack-half", long_ago),
            ("cpython-3.13-other.cwasm", SystemTime::now()),
            ("notes.cwasm", long_ago),
        ] {
            let file = File::create_new(cache.join(name)).unwrap();
            file.set_times(fs::FileTimes::new().set_accessed(time).set_modified(time)).unwrap();
        }
        File::create_new(cache.join("cpython-3.13-old.checked")).unwrap();
        let path = lay(&image, &cache).unwrap();
        let mut left: Vec<PathBuf> = fs::read_dir(&cache).unwrap().map(|entry| entry.unwrap().path()).collect();
        left.sort();
        let mut wanted =
            [identity_path(&path), path, cache.join("cpython-3.13-other.cwasm"), cache.join("notes.cwasm")];
        wanted.sort();
        assert_eq!(left, wanted);
    }

    #[test]
    fn an_intact_image_is_not_written_again() {
        let (_dir, cache) = cache();
        let image = gloveport_guest::image();
        let path = lay(&image, &cache).unwrap();
        let before = identity(&fs::metadata(&path).unwrap());
        lay(&image, &cache).unwrap();
        assert_eq!(identity(&fs::metadata(&path).unwrap()), before);
    }
}
