//! Which directories can be granted to a script at all.
//!
//! A grant is opened by WASI as it is: no table of protected names applies inside it. So a grant must not hold what this process itself lives on: the
//! machine code that it maps, the private directories of other runs, the kernel's own file systems.

#![expect(clippy::disallowed_methods, reason = "this file compares directories that the host itself named")]

use std::path::{Path, PathBuf};

use crate::backend::BackendError;
use crate::job::{Access, Grant};

/// File systems through which processes and devices can be reached.
const KERNEL: &[&str] = &["/proc", "/sys", "/dev"];
/// A plain file system below one of them.
const KERNEL_EXCEPT: &str = "/dev/shm";

/// Checks a grant against the directory of the guest image, and gives it without links. The error is for the user.
pub(super) fn check(grant: &Grant, cache_dir: &Path) -> Result<PathBuf, BackendError> {
    let path = real(&grant.path);
    let refused = |what: &str| {
        let shown = grant.path.display();
        Err(BackendError::setup(format!(
            "the directory {shown} can't be granted to a script: it {what}; grant a smaller one"
        )))
    };
    let is_kernel = KERNEL.iter().any(|dir| overlaps(&path, Path::new(dir))) && !path.starts_with(KERNEL_EXCEPT);
    if is_kernel {
        return refused("holds processes and devices");
    }
    if grant.access == Access::ReadWrite && overlaps(&path, &real(cache_dir)) {
        return refused("holds the machine code of Gloveport's own guest");
    }
    Ok(path)
}

/// Whether one of two directories holds the other.
pub(super) fn overlaps(a: &Path, b: &Path) -> bool {
    a.starts_with(b) || b.starts_with(a)
}

/// The directory without links. One that can't be resolved stays as it is, and opening it will say why.
pub(super) fn real(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_path_buf())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(path: &str, access: Access) -> bool {
        check(&Grant { path: path.into(), access }, Path::new("/home/u/.cache/gloveport")).is_ok()
    }

    #[test]
    fn e17_the_runtimes_own_files_are_never_granted_for_writing() {
        for path in ["/home", "/home/u", "/home/u/.cache", "/home/u/.cache/gloveport", "/home/u/.cache/gloveport/x"] {
            assert!(!judged(path, Access::ReadWrite), "{path}");
            assert!(judged(path, Access::ReadOnly), "{path}");
        }
        assert!(judged("/home/u/src", Access::ReadWrite));
    }

    #[test]
    fn e1_the_kernels_file_systems_are_never_granted() {
        for path in ["/", "/proc", "/proc/1", "/sys/kernel", "/dev"] {
            assert!(!judged(path, Access::ReadOnly), "{path}");
        }
        assert!(judged("/dev/shm/work", Access::ReadOnly));
    }
}
