//! Approvals that hold from now on, kept in `approvals` of the user's configuration directory.
//!
//! One line for each: the hash of the exact script or command, so the file says nothing about what was approved. It is replaced as a whole, by rename,
//! and readable by its owner only. A file that somebody else could have written counts as empty.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use gloveport::approval::DecisionStore;

use crate::settings::trusted;

const FILE_NAME: &str = "approvals";
/// About sixteen thousand approvals.
const MAX_BYTES: u64 = 1 << 20;

/// The file, read once, and what this process added.
pub(crate) struct DecisionFile {
    directory: PathBuf,
    known: Mutex<HashSet<[u8; 32]>>,
}

impl DecisionFile {
    /// Reads the file of a configuration directory; a missing one is empty.
    pub(crate) fn open(directory: PathBuf) -> Self {
        let known = Mutex::new(read(&directory.join(FILE_NAME)).unwrap_or_default());
        Self { directory, known }
    }

    /// What other processes added in the meantime stays.
    fn save(&self, digest: [u8; 32]) -> io::Result<()> {
        let mut all = read(&self.directory.join(FILE_NAME)).unwrap_or_default();
        all.insert(digest);
        make_private(&self.directory)?;
        let mut file = tempfile::NamedTempFile::new_in(&self.directory)?;
        let mut lines: Vec<String> = all.iter().map(|digest| format!("{}\n", hex(digest))).collect();
        lines.sort();
        file.write_all(lines.concat().as_bytes())?;
        file.persist(self.directory.join(FILE_NAME)).map(drop).map_err(|error| error.error)
    }
}

impl DecisionStore for DecisionFile {
    fn contains(&self, digest: &[u8; 32]) -> bool {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).contains(digest)
    }

    fn insert(&self, digest: [u8; 32]) {
        let new = self.known.lock().unwrap_or_else(PoisonError::into_inner).insert(digest);
        if new && let Err(error) = self.save(digest) {
            tracing::warn!(%error, "an approval could not be stored; it holds for this session");
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "this file owns the stored approvals")]
fn read(path: &Path) -> Option<HashSet<[u8; 32]>> {
    let file = File::open(path).ok()?;
    let metadata = file.metadata().ok()?;
    if let Err(problem) = trusted(&metadata) {
        tracing::warn!(problem, "stored approvals are not used");
        return None;
    }
    let mut text = String::new();
    file.take(MAX_BYTES).read_to_string(&mut text).ok()?;
    Some(text.lines().filter_map(unhex).collect())
}

#[cfg(unix)]
fn make_private(directory: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)
}

#[cfg(not(unix))]
fn make_private(directory: &Path) -> io::Result<()> {
    std::fs::DirBuilder::new().recursive(true).create(directory)
}

fn hex(digest: &[u8; 32]) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(line: &str) -> Option<[u8; 32]> {
    let mut digest = [0; 32];
    if line.len() != 64 || !line.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    for (byte, at) in digest.iter_mut().zip((0..64).step_by(2)) {
        *byte = u8::from_str_radix(&line[at..at + 2], 16).ok()?;
    }
    Some(digest)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "tests look at the file itself")]

    use super::*;

    #[test]
    fn decisions_outlive_the_process_and_keep_those_of_others() {
        let home = tempfile::tempdir().unwrap();
        let directory = home.path().join("a/gloveport");
        let (first, second) = (DecisionFile::open(directory.clone()), DecisionFile::open(directory.clone()));
        first.insert([1; 32]);
        second.insert([2; 32]);
        assert!(first.contains(&[1; 32]) && !first.contains(&[2; 32]));
        let later = DecisionFile::open(directory.clone());
        assert!(later.contains(&[1; 32]) && later.contains(&[2; 32]) && !later.contains(&[3; 32]));
        let text = std::fs::read_to_string(directory.join("approvals")).unwrap();
        assert_eq!(text, format!("{}\n{}\n", "01".repeat(32), "02".repeat(32)));
        assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 1);
    }

    #[cfg(unix)]
    #[test]
    fn the_file_is_private_and_one_that_is_not_is_not_used() {
        use std::os::unix::fs::PermissionsExt;
        let home = tempfile::tempdir().unwrap();
        let store = DecisionFile::open(home.path().to_owned());
        store.insert([1; 32]);
        let path = home.path().join("approvals");
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o602)).unwrap();
        assert!(!DecisionFile::open(home.path().to_owned()).contains(&[1; 32]));
    }

    #[test]
    fn lines_that_are_no_hash_are_skipped() {
        for line in ["", "zz", &"g".repeat(64), &"é".repeat(32), &"+1".repeat(32)] {
            assert_eq!(unhex(line), None, "{line}");
        }
        assert_eq!(unhex(&hex(&[0xab; 32])), Some([0xab; 32]));
    }

    #[test]
    fn a_directory_that_can_not_be_written_leaves_the_decision_for_the_session() {
        let store = DecisionFile::open("/proc/no/such/place".into());
        store.insert([1; 32]);
        assert!(store.contains(&[1; 32]));
    }
}
