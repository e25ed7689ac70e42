//! The first and the last bytes of a stream, and how many there were.

use std::collections::VecDeque;

use bytes::Bytes;

/// Keeps a bounded head and tail of what is pushed.
#[derive(Debug, Default)]
pub(crate) struct Ring {
    keep: (usize, usize),
    head: Vec<u8>,
    tail: VecDeque<u8>,
    total: u64,
}

impl Ring {
    pub(crate) fn new(keep: (usize, usize)) -> Self {
        Self { keep, head: Vec::new(), tail: VecDeque::new(), total: 0 }
    }

    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        let (first, rest) = bytes.split_at(bytes.len().min(self.keep.0 - self.head.len()));
        self.head.extend_from_slice(first);
        let rest = &rest[rest.len().saturating_sub(self.keep.1)..];
        let over = (self.tail.len() + rest.len()).saturating_sub(self.keep.1);
        self.tail.drain(..over);
        self.tail.extend(rest);
    }

    /// The first bytes, the last ones without those in the first, and how many there were.
    pub(crate) fn into_parts(self) -> (Bytes, Bytes, u64) {
        (self.head.into(), Vec::from(self.tail).into(), self.total)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn head_and_tail_are_what_was_first_and_last(
            pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..20), 0..10), head in 0usize..15, tail in 0usize..15,
        ) {
            let mut ring = Ring::new((head, tail));
            pieces.iter().for_each(|piece| ring.push(piece));
            let all = pieces.concat();
            let (kept_head, kept_tail, total) = ring.into_parts();
            prop_assert_eq!(total, all.len() as u64);
            let first = &all[..all.len().min(head)];
            prop_assert_eq!(&kept_head[..], first);
            let rest = &all[first.len()..];
            prop_assert_eq!(&kept_tail[..], &rest[rest.len().saturating_sub(tail)..]);
        }
    }
}
