//! What the fuzz targets drive: the parsers of everything that a remote sends. They panic where a promise is broken.

use std::collections::BTreeSet;

use bytes::{Bytes, BytesMut};

use crate::frame::{FrameError, HEADER, decode};
use crate::journal::{Journal, Verdict};
use crate::seal::{Kind, RunKey};

/// Longest payload that the decoder is asked to take.
const MAX_PAYLOAD: usize = 1 << 12;
/// Calls that may be under way.
const LIMIT: usize = 3;

/// Any bytes in any pieces: the same frames however they are cut, none longer than allowed, none made of bytes that never came.
pub fn frames(pieces: &[Vec<u8>]) {
    let whole = pieces.concat();
    let at_once = all(&[whole.as_slice()]);
    let cut: Vec<&[u8]> = pieces.iter().map(Vec::as_slice).collect();
    let in_pieces = all(&cut);
    assert_eq!(at_once, in_pieces);
    let used: usize = at_once.0.iter().map(|(_, payload)| HEADER + payload.len()).sum();
    assert!(used <= whole.len());
    assert!(at_once.0.iter().all(|(_, payload)| payload.len() <= MAX_PAYLOAD));
}

fn all(pieces: &[&[u8]]) -> (Vec<(u8, Bytes)>, Option<FrameError>) {
    let mut buffer = BytesMut::new();
    let mut frames = Vec::new();
    for piece in pieces {
        buffer.extend_from_slice(piece);
        loop {
            match decode(&mut buffer, MAX_PAYLOAD) {
                Ok(Some(frame)) => frames.push((frame.kind as u8, frame.payload)),
                Ok(None) => break,
                // Nothing after an error is looked at.
                Err(error) => return (frames, Some(error)),
            }
        }
    }
    (frames, None)
}

/// One thing that happens to a journal.
#[derive(Debug)]
pub enum Event<'a> {
    /// A request with the run's own seal.
    Sealed(u32, u32, &'a [u8]),
    /// Any bytes as a request file.
    Raw(u32, &'a [u8]),
    /// No readable file.
    Fault(u32, &'a str),
    /// The dispatcher is ready.
    Next,
    /// The dispatcher answers one of the calls under way.
    Answer(u8, &'a [u8]),
    /// The relay could not write an answer.
    Unsent(u32, u32),
}

/// Any events in any order: each number is given out at most once, only with what was sealed for it, and no more than the limit at a time.
pub fn journal<'a>(events: impl Iterator<Item = Event<'a>>) {
    let key = || RunKey::new("fuzz", [7; 32]);
    let mut journal = Journal::new(key(), LIMIT);
    let mut sealed: BTreeSet<(u32, Vec<u8>)> = BTreeSet::new();
    let mut given: BTreeSet<u32> = BTreeSet::new();
    let mut under_way: Vec<u32> = Vec::new();
    for event in events {
        let verdict = match event {
            Event::Sealed(seq, ring, body) => {
                sealed.insert((seq, body.to_vec()));
                journal.accept(seq, &key().seal(Kind::Request, seq, ring, body))
            }
            Event::Raw(seq, content) => journal.accept(seq, &Bytes::copy_from_slice(content)),
            Event::Fault(seq, text) => journal.accept_fault(seq, text),
            Event::Next => {
                if let Some((seq, body)) = journal.next() {
                    assert!(given.insert(seq), "call {seq} was given out twice");
                    assert!(sealed.contains(&(seq, body.to_vec())), "call {seq} is not what was sealed");
                    under_way.push(seq);
                    assert!(under_way.len() <= LIMIT);
                }
                continue;
            }
            Event::Answer(at, body) => {
                if !under_way.is_empty() {
                    let seq = under_way.swap_remove(usize::from(at) % under_way.len());
                    assert!(
                        journal.answer(seq, body).is_some_and(|sent| sent.seq == seq),
                        "call {seq} stays unanswered"
                    );
                }
                continue;
            }
            Event::Unsent(seq, errno) => {
                journal.unsent(seq, errno);
                continue;
            }
        };
        match verdict {
            Verdict::End(_) => return,
            Verdict::Send(sent) => assert!(!under_way.contains(&sent.seq), "call {} is answered twice", sent.seq),
            Verdict::Queued | Verdict::Nothing => {}
        }
    }
}
