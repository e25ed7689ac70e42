//! The files of the protocol between a script and its relay: one line that says whose they are, then the content. Pure.
//!
//! `GP1 KIND SEQ RING LENGTH MAC\n` and the content. The MAC (HMAC-SHA-256 with the run's key) covers kind, run, sequence number, ring
//! and content, so that a file of another run, another call or another author is told apart. It keeps out other users and
//! leftovers, not the script itself, which has the key. The same forms are in `guest-python/remote/_gp_remote.py`.

use bytes::{Bytes, BytesMut};
use hmac::{Hmac, Mac};
use sha2::{Digest, Sha256};

/// The line is shorter than this, whatever the numbers in it.
const MAX_LINE: usize = 160;

/// What identifies a run towards its own script.
#[derive(Clone)]
pub(crate) struct RunKey {
    run_id: String,
    key: [u8; 32],
}

/// What a file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A request.
    Request,
    /// An answer: JSON.
    Answer,
    /// An answer that is an error number, for a script whose disk is full.
    Errno,
}

impl Kind {
    const fn letter(self) -> char {
        match self {
            Self::Request => 'q',
            Self::Answer => 'a',
            Self::Errno => 'e',
        }
    }
}

/// A request that is what it claims to be.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Sealed {
    /// The doorbell of the process that waits for the answer.
    pub(crate) ring: u32,
    /// The tool request.
    pub(crate) body: Bytes,
}

/// Why a request file counts as nobody's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Forged {
    /// No line of the right shape.
    #[error("malformed")]
    Malformed,
    /// It names another call than its file name does.
    #[error("of another call")]
    OtherCall,
    /// The MAC is not this run's.
    #[error("not authentic")]
    NotAuthentic,
}

impl RunKey {
    /// A key for one run. `key` has to come from the system's random generator.
    pub(crate) fn new(run_id: impl Into<String>, key: [u8; 32]) -> Self {
        Self { run_id: run_id.into(), key }
    }

    /// The key as the relay hands it to the script.
    pub(crate) fn to_hex(&self) -> String {
        hex(&self.key)
    }

    /// Seals an answer.
    pub(crate) fn seal(&self, kind: Kind, seq: u32, ring: u32, body: &[u8]) -> Bytes {
        let mac = self.mac(kind, seq, ring, body).finalize().into_bytes();
        let line = format!("GP1 {} {seq} {ring} {} {}\n", kind.letter(), body.len(), hex(&mac));
        let mut content = BytesMut::with_capacity(line.len() + body.len());
        content.extend_from_slice(line.as_bytes());
        content.extend_from_slice(body);
        content.freeze()
    }

    /// Opens a request that was found under the name of `seq`.
    pub(crate) fn open(&self, seq: u32, content: &Bytes) -> Result<Sealed, Forged> {
        let end = content.iter().take(MAX_LINE).position(|byte| *byte == b'\n').ok_or(Forged::Malformed)?;
        let line = std::str::from_utf8(&content[..end]).map_err(|_| Forged::Malformed)?;
        let body = content.slice(end + 1..);
        let mut words = line.split(' ');
        let mut next = || words.next().ok_or(Forged::Malformed);
        if next()? != "GP1" || next()? != "q" {
            return Err(Forged::Malformed);
        }
        let named = number(next()?)?;
        let ring = number(next()?)?;
        let length = number(next()?)?;
        let mac = unhex(next()?).ok_or(Forged::Malformed)?;
        if words.next().is_some() || usize::try_from(length) != Ok(body.len()) {
            return Err(Forged::Malformed);
        }
        if named != seq {
            return Err(Forged::OtherCall);
        }
        // Compares in constant time.
        self.mac(Kind::Request, seq, ring, &body).verify_slice(&mac).map_err(|_| Forged::NotAuthentic)?;
        Ok(Sealed { ring, body })
    }

    fn mac(&self, kind: Kind, seq: u32, ring: u32, body: &[u8]) -> Hmac<Sha256> {
        let mut key = [0; 64];
        // HMAC pads short keys with zeros; a block-sized key can't have a wrong length, which spares an error that can't be.
        key[..32].copy_from_slice(&self.key);
        let mut mac = <Hmac<Sha256> as hmac::digest::KeyInit>::new(&key.into());
        mac.update(format!("GP1 {} {seq} {ring} {}\n", kind.letter(), self.run_id).as_bytes());
        mac.update(body);
        mac
    }
}

impl std::fmt::Debug for RunKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RunKey").field("run_id", &self.run_id).finish_non_exhaustive()
    }
}

/// SHA-256 of bytes: how two requests are compared.
pub(crate) fn digest(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

/// Lower-case hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    bytes.iter().flat_map(|b| [DIGITS[usize::from(b >> 4)], DIGITS[usize::from(b & 15)]]).map(char::from).collect()
}

fn unhex(text: &str) -> Option<[u8; 32]> {
    let mut bytes = [0; 32];
    if text.len() != 64 || !text.is_ascii() {
        return None;
    }
    for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks(2)) {
        let high = char::from(pair[0]).to_digit(16)?;
        let low = char::from(pair[1]).to_digit(16)?;
        *byte = u8::try_from(high * 16 + low).ok()?;
    }
    Some(bytes)
}

fn number(text: &str) -> Result<u32, Forged> {
    // `parse` alone would accept a sign.
    if !text.bytes().all(|b| b.is_ascii_digit()) {
        return Err(Forged::Malformed);
    }
    text.parse().map_err(|_| Forged::Malformed)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// What a script's stub writes.
    pub(crate) fn request(key: &RunKey, seq: u32, ring: u32, body: &[u8]) -> Bytes {
        key.seal(Kind::Request, seq, ring, body)
    }

    fn key() -> RunKey {
        RunKey::new("run", [7; 32])
    }

    #[test]
    fn requests_open_under_their_own_name_only() {
        let content = request(&key(), 12, 3, b"{}\n");
        assert_eq!(key().open(12, &content), Ok(Sealed { ring: 3, body: Bytes::from_static(b"{}\n") }));
        assert_eq!(key().open(13, &content), Err(Forged::OtherCall));
        assert_eq!(RunKey::new("other", [7; 32]).open(12, &content), Err(Forged::NotAuthentic));
        assert_eq!(RunKey::new("run", [8; 32]).open(12, &content), Err(Forged::NotAuthentic));
    }

    #[test]
    fn any_changed_byte_is_noticed() {
        let content = request(&key(), 1, 2, b"{\"tool\": 1}");
        for at in 0..content.len() {
            let mut changed = content.to_vec();
            changed[at] ^= 1;
            assert!(key().open(1, &changed.into()).is_err(), "byte {at}");
        }
    }

    #[test]
    fn answers_are_no_requests() {
        assert_eq!(key().open(1, &key().seal(Kind::Answer, 1, 0, b"1")), Err(Forged::Malformed));
    }

    #[test]
    fn junk_is_malformed() {
        for junk in ["", "\n", "GP1", "GP1 q 1 1 0 \n", "GP1 q +1 1 0 00\n", "[]", "GP1 q 1 1 99999999999 0\n"] {
            assert_eq!(key().open(1, &Bytes::from(junk)), Err(Forged::Malformed), "{junk:?}");
        }
    }
}
