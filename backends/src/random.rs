//! Unguessable bytes from the system.

use gloveport::backend::BackendError;
use rustix::rand::{GetRandomFlags, getrandom};

/// Random bytes. Fails only where the system has no random generator.
pub(crate) fn bytes<const N: usize>() -> Result<[u8; N], BackendError> {
    let mut bytes = [0; N];
    let mut filled = 0;
    while filled < N {
        match getrandom(&mut bytes[filled..], GetRandomFlags::empty()) {
            Ok(count) => filled += count,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => {
                return Err(BackendError::Internal {
                    message: "the system gives no random numbers".to_owned(),
                    source: Some(Box::new(std::io::Error::from(error))),
                });
            }
        }
    }
    Ok(bytes)
}
