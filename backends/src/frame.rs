//! Frames between this host and a relay: a length, a kind, a payload. Pure.
//!
//! `u32` payload length, `u8` kind, payload; integers are little-endian. The other side is hostile: a length is checked
//! before anything is kept for it, an unknown kind is an error, and decoding never panics. The kinds are mirrored in
//! `guest-python/remote/gp_frames.py`.

use bytes::{Buf, BufMut, Bytes, BytesMut};

/// Bytes before the payload.
pub(crate) const HEADER: usize = 5;
/// What a relay may send at most while no run asks for more: a block of a file with its description.
pub(crate) const BASE_MAX_FRAME: usize = 17 << 20;

/// What a frame from the host asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum ToRelay {
    /// `u32` length of JSON, JSON, script.
    Start = 0x01,
    /// `u32` sequence number, `u32` ring, content of the answer file.
    Answer = 0x02,
    /// End the run.
    Kill = 0x03,
    /// A sign of life.
    Ping = 0x04,
    /// `u32` more bytes of output.
    Credit = 0x05,
    /// `u32` id, `u32` length of JSON, JSON, data.
    File = 0x07,
    /// `u32` id.
    Cancel = 0x08,
    /// JSON: remove leftovers.
    Sweep = 0x09,
}

/// What a frame from a relay says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum FromRelay {
    /// JSON: what was found on the remote.
    Hello = 0x81,
    /// `u8` stream, bytes.
    Output = 0x82,
    /// `u32` sequence number, `u8` fault, content of the request file or the fault's text.
    Call = 0x83,
    /// JSON: how the run ended.
    Exit = 0x84,
    /// `u32` id, `u32` length of JSON, JSON, data.
    Filed = 0x85,
    /// A sign of life.
    Pong = 0x86,
    /// JSON: the run could not start.
    Failed = 0x87,
    /// JSON: the run has started.
    Started = 0x88,
    /// `u32` sequence number, `u32` error number: an answer could not be written.
    Unsent = 0x89,
    /// JSON: what a sweep removed.
    Swept = 0x8A,
}

impl FromRelay {
    const ALL: [Self; 10] = [
        Self::Hello,
        Self::Output,
        Self::Call,
        Self::Exit,
        Self::Filed,
        Self::Pong,
        Self::Failed,
        Self::Started,
        Self::Unsent,
        Self::Swept,
    ];

    fn from_byte(byte: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as u8 == byte)
    }
}

/// One frame of a relay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Frame {
    /// What it is.
    pub(crate) kind: FromRelay,
    /// Its content.
    pub(crate) payload: Bytes,
}

/// Why bytes are no frames.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FrameError {
    /// Longer than accepted.
    #[error("a frame of {0} bytes is longer than accepted")]
    TooLong(u64),
    /// No such kind.
    #[error("unknown frame kind {0:#04x}")]
    UnknownKind(u8),
    /// The payload ends too early.
    #[error("a frame is cut short")]
    Short,
}

/// Takes the next frame from the front of `buffer`; `None` until it is complete.
pub(crate) fn decode(buffer: &mut BytesMut, max_payload: usize) -> Result<Option<Frame>, FrameError> {
    let Some((head, _)) = buffer.split_first_chunk::<HEADER>() else {
        return Ok(None);
    };
    let length = u32::from_le_bytes([head[0], head[1], head[2], head[3]]);
    let kind = FromRelay::from_byte(head[4]).ok_or(FrameError::UnknownKind(head[4]))?;
    let length = usize::try_from(length).map_err(|_| FrameError::TooLong(length.into()))?;
    if length > max_payload {
        return Err(FrameError::TooLong(length as u64));
    }
    if buffer.len() - HEADER < length {
        return Ok(None);
    }
    buffer.advance(HEADER);
    Ok(Some(Frame { kind, payload: buffer.split_to(length).freeze() }))
}

/// A frame ready to be written. Parts are joined by the writer, so that a large answer is not copied.
#[derive(Debug, Clone)]
pub(crate) struct Outgoing {
    /// Header and the small part.
    pub(crate) head: Bytes,
    /// The large part, perhaps empty.
    pub(crate) body: Bytes,
}

/// Makes a frame of a small part and a large one. `None` if they are longer than a frame can say.
pub(crate) fn encode(kind: ToRelay, small: &[u8], body: Bytes) -> Option<Outgoing> {
    let length = u32::try_from(small.len().checked_add(body.len())?).ok()?;
    let mut head = BytesMut::with_capacity(HEADER + small.len());
    head.put_u32_le(length);
    head.put_u8(kind as u8);
    head.put_slice(small);
    Some(Outgoing { head: head.freeze(), body })
}

/// Takes a `u32` from the front of a payload.
pub(crate) fn take_u32(payload: &mut Bytes) -> Result<u32, FrameError> {
    payload.try_get_u32_le().map_err(|_| FrameError::Short)
}

/// Takes one byte from the front of a payload.
pub(crate) fn take_u8(payload: &mut Bytes) -> Result<u8, FrameError> {
    payload.try_get_u8().map_err(|_| FrameError::Short)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn wire(kind: u8, payload: &[u8]) -> Vec<u8> {
        let mut bytes = u32::try_from(payload.len()).unwrap().to_le_bytes().to_vec();
        bytes.push(kind);
        bytes.extend_from_slice(payload);
        bytes
    }

    #[test]
    fn bounds_and_kinds() {
        let mut long = BytesMut::from(&[0xFF, 0xFF, 0xFF, 0xFF, 0x82][..]);
        assert_eq!(decode(&mut long, 100), Err(FrameError::TooLong(u32::MAX.into())));
        let mut unknown = BytesMut::from(&wire(0x42, b"")[..]);
        assert_eq!(decode(&mut unknown, 100), Err(FrameError::UnknownKind(0x42)));
        let mut exact = BytesMut::from(&wire(0x82, &[7; 100])[..]);
        assert_eq!(decode(&mut exact, 100).unwrap().unwrap().payload.len(), 100);
        assert_eq!(decode(&mut exact, 100), Ok(None));
    }

    #[test]
    fn encoding_states_the_length_of_both_parts() {
        let frame = encode(ToRelay::Answer, b"ab", Bytes::from_static(b"cde")).unwrap();
        assert_eq!(&frame.head[..], b"\x05\0\0\0\x02ab");
        assert_eq!(&frame.body[..], b"cde");
    }

    proptest! {
        #[test]
        fn any_cut_of_a_stream_gives_the_same_frames(
            frames in proptest::collection::vec((0usize..10, proptest::collection::vec(any::<u8>(), 0..300)), 0..8),
            cuts in proptest::collection::vec(1usize..50, 1..20),
        ) {
            let stream: Vec<u8> = frames.iter().flat_map(|(kind, payload)| wire(FromRelay::ALL[*kind] as u8, payload)).collect();
            let mut buffer = BytesMut::new();
            let mut seen = Vec::new();
            let mut rest = &stream[..];
            let mut cuts = cuts.iter().cycle();
            while !rest.is_empty() {
                let (now, later) = rest.split_at(rest.len().min(*cuts.next().unwrap()));
                buffer.extend_from_slice(now);
                rest = later;
                while let Some(frame) = decode(&mut buffer, 1000).unwrap() {
                    seen.push((frame.kind, frame.payload.to_vec()));
                }
            }
            let expected: Vec<_> = frames.iter().map(|(kind, payload)| (FromRelay::ALL[*kind], payload.clone())).collect();
            prop_assert_eq!(seen, expected);
        }

        #[test]
        fn noise_never_panics(noise in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut buffer = BytesMut::from(&noise[..]);
            while let Ok(Some(_)) = decode(&mut buffer, 1000) {}
        }
    }
}
