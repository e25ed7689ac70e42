//! Where the bytes of a derived text come from in the text that it was made of.
//!
//! Decoding, stripping and normalizing each make a new text out of an older one. A secret is found in the last of
//! them, masked in the middle one and cut by offsets of the first, so every step keeps a map back.

/// A stretch of derived bytes and the stretch of source bytes that it stands for.
#[derive(Clone, Copy, Debug)]
struct Run {
    at: usize,
    len: usize,
    source: usize,
    source_len: usize,
}

impl Run {
    /// Whether derived and source bytes correspond one to one.
    fn is_copy(&self) -> bool {
        self.len == self.source_len
    }
}

/// The map from a derived text to its source, as an ordered list of runs.
#[derive(Clone, Debug, Default)]
pub(super) struct Origins {
    runs: Vec<Run>,
    len: usize,
}

impl Origins {
    /// Appends `len` derived bytes copied from `source`.
    pub(super) fn push_copy(&mut self, len: usize, source: usize) {
        if len == 0 {
            return;
        }
        if let Some(last) = self.runs.last_mut()
            && last.is_copy()
            && last.source + last.len == source
        {
            last.len += len;
            last.source_len += len;
        } else {
            self.runs.push(Run { at: self.len, len, source, source_len: len });
        }
        self.len += len;
    }

    /// Appends `len` derived bytes that together stand for `source_len` source bytes.
    pub(super) fn push_replaced(&mut self, len: usize, source: usize, source_len: usize) {
        self.runs.push(Run { at: self.len, len, source, source_len });
        self.len += len;
    }

    /// Takes the derived bytes from `len` on away.
    pub(super) fn truncate(&mut self, len: usize) {
        while let Some(last) = self.runs.last_mut()
            && last.at + last.len > len
        {
            if last.at >= len {
                self.runs.pop();
            } else {
                last.source_len -= if last.is_copy() { last.at + last.len - len } else { 0 };
                last.len = len - last.at;
            }
        }
        self.len = self.len.min(len);
    }

    fn run_at(&self, at: usize) -> Option<&Run> {
        let index = self.runs.partition_point(|run| run.at <= at);
        self.runs.get(index.checked_sub(1)?)
    }

    /// Source offset at which the derived byte `at` begins. `at == len` gives the end of the source that was used.
    pub(super) fn start(&self, at: usize) -> usize {
        if at >= self.len {
            return self.runs.last().map_or(0, |run| run.source + run.source_len);
        }
        self.run_at(at).map_or(0, |run| if run.is_copy() { run.source + (at - run.at) } else { run.source })
    }

    /// Source offset just past what the derived bytes before `at` stand for.
    pub(super) fn end(&self, at: usize) -> usize {
        let Some(before) = at.checked_sub(1) else {
            return self.runs.first().map_or(0, |run| run.source);
        };
        self.run_at(before).map_or(0, |run| {
            if run.is_copy() { run.source + (before - run.at) + 1 } else { run.source + run.source_len }
        })
    }

    /// Whether source bytes were left out between the derived bytes `at - 1` and `at`.
    pub(super) fn is_gap(&self, at: usize) -> bool {
        at > 0 && at < self.len && self.start(at) != self.end(at)
    }

    /// The last gap in `from..to`, if there is one: the greatest position for which [`Origins::is_gap`] holds.
    pub(super) fn last_gap(&self, from: usize, to: usize) -> Option<usize> {
        let mut index = self.runs.partition_point(|run| run.at <= to);
        while let Some(previous) = index.checked_sub(1) {
            let at = self.runs[previous].at;
            if at < from {
                return None;
            }
            if self.is_gap(at) {
                return Some(at);
            }
            index = previous;
        }
        None
    }

    /// Appends the derived range `from..to` of `other`, as a map that skips the step in between.
    pub(super) fn push_through(&mut self, other: &Self, from: usize, to: usize) {
        let mut index = other.runs.partition_point(|run| run.at + run.len <= from);
        while let Some(run) = other.runs.get(index).filter(|run| run.at < to) {
            let start = from.max(run.at);
            let end = to.min(run.at + run.len);
            if run.is_copy() {
                self.push_copy(end - start, run.source + (start - run.at));
            } else {
                self.push_replaced(end - start, run.source, run.source_len);
            }
            index += 1;
        }
    }
}
