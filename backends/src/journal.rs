//! What was asked and answered in one run: a call is dispatched at most once. Pure: no I/O, no clock, no tasks.
//!
//! `accept` takes what the relay found, `next` says what to hand to the dispatcher, `answer` takes its answer and
//! returns what the relay has to write. A request that comes again gets the stored answer; the same number with another content
//! ends the run. Nothing that a script sends is ignored, except what is not authentic: that is counted.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;

use crate::seal::{Kind, RunKey, digest};

/// Files that are not authentic, or not files, before the run is ended.
pub(crate) const MAX_VIOLATIONS: u32 = 100;
/// Requests that wait for their turn.
const MAX_QUEUED: usize = 1024;
/// Requests and answers of one run together.
const MAX_RUN_BYTES: u64 = 1 << 30;
/// Answers kept for a request that comes again.
const MAX_STORED_BYTES: usize = 16 << 20;

/// What to do about a request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It is queued; `next` will give it out.
    Queued,
    /// Send this at once.
    Send(Outgoing),
    /// Nothing: an answer is on its way, or it was not authentic.
    Nothing,
    /// End the run: the protocol is broken. The text is for the log.
    End(&'static str),
}

/// An answer file for the relay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Outgoing {
    /// Number of the call.
    pub(crate) seq: u32,
    /// Doorbell to ring.
    pub(crate) ring: u32,
    /// Content of the file.
    pub(crate) content: Bytes,
}

#[derive(Debug)]
struct Entry {
    digest: [u8; 32],
    ring: u32,
    state: State,
}

#[derive(Debug)]
enum State {
    Queued(Bytes),
    Dispatched,
    /// Answered; the answer is dropped when too much is stored.
    Done(Option<Bytes>),
}

/// The journal of one run.
#[derive(Debug)]
pub(crate) struct Journal {
    key: RunKey,
    outstanding_limit: usize,
    entries: BTreeMap<u32, Entry>,
    queue: VecDeque<u32>,
    outstanding: usize,
    stored: VecDeque<u32>,
    stored_bytes: usize,
    run_bytes: u64,
    violations: u32,
}

impl Journal {
    /// An empty journal. At most `outstanding_limit` calls are given out at the same time.
    pub(crate) fn new(key: RunKey, outstanding_limit: usize) -> Self {
        Self {
            key,
            outstanding_limit: outstanding_limit.max(1),
            entries: BTreeMap::new(),
            queue: VecDeque::new(),
            outstanding: 0,
            stored: VecDeque::new(),
            stored_bytes: 0,
            run_bytes: 0,
            violations: 0,
        }
    }

    /// Files that were not authentic or not files.
    pub(crate) fn violations(&self) -> u32 {
        self.violations
    }

    /// Takes a request file's content.
    pub(crate) fn accept(&mut self, seq: u32, content: &Bytes) -> Verdict {
        let sealed = match self.key.open(seq, content) {
            Ok(sealed) => sealed,
            Err(forged) => {
                tracing::debug!(seq, %forged, "dropped a tool request");
                return self.violation();
            }
        };
        let digest = digest(&sealed.body);
        if let Some(entry) = self.entries.get_mut(&seq) {
            return again(&self.key, seq, entry, digest, sealed.ring);
        }
        self.run_bytes = self.run_bytes.saturating_add(sealed.body.len() as u64);
        self.entries.insert(seq, Entry { digest, ring: sealed.ring, state: State::Dispatched });
        if self.run_bytes > MAX_RUN_BYTES {
            return self
                .refuse(seq, "Tool traffic limit reached (1 GiB). No more tool calls allowed in this execution.");
        }
        if self.queue.len() >= MAX_QUEUED {
            return self.refuse(seq, "Too many tool calls are waiting.");
        }
        if let Some(entry) = self.entries.get_mut(&seq) {
            entry.state = State::Queued(sealed.body);
        }
        self.queue.push_back(seq);
        Verdict::Queued
    }

    /// Takes word of a request that is no readable file. It is answered, and it counts.
    pub(crate) fn accept_fault(&mut self, seq: u32, fault: &str) -> Verdict {
        if let Verdict::End(why) = self.violation() {
            return Verdict::End(why);
        }
        if self.entries.contains_key(&seq) {
            return Verdict::Nothing;
        }
        let text = format!("Tool request refused: {fault}");
        self.entries.insert(seq, Entry { digest: digest(text.as_bytes()), ring: 0, state: State::Dispatched });
        self.refuse(seq, &text)
    }

    /// The next call for the dispatcher, in order of arrival; `None` while enough are under way.
    pub(crate) fn next(&mut self) -> Option<(u32, Bytes)> {
        if self.outstanding >= self.outstanding_limit {
            return None;
        }
        let seq = self.queue.pop_front()?;
        let entry = self.entries.get_mut(&seq)?;
        let State::Queued(body) = std::mem::replace(&mut entry.state, State::Dispatched) else {
            return None;
        };
        self.outstanding += 1;
        Some((seq, body))
    }

    /// Takes the dispatcher's answer to a call that `next` gave out.
    pub(crate) fn answer(&mut self, seq: u32, body: &[u8]) -> Option<Outgoing> {
        self.outstanding = self.outstanding.saturating_sub(1);
        self.finish(seq, Kind::Answer, body)
    }

    /// The relay could not write an answer: what to write instead, a few bytes that say why.
    pub(crate) fn unsent(&mut self, seq: u32, errno: u32) -> Option<Outgoing> {
        if !matches!(self.entries.get(&seq)?.state, State::Done(_)) {
            return None;
        }
        self.finish(seq, Kind::Errno, errno.to_string().as_bytes())
    }

    fn refuse(&mut self, seq: u32, text: &str) -> Verdict {
        let body = serde_json::json!({ "error": text }).to_string();
        self.finish(seq, Kind::Answer, body.as_bytes()).map_or(Verdict::Nothing, Verdict::Send)
    }

    fn finish(&mut self, seq: u32, kind: Kind, body: &[u8]) -> Option<Outgoing> {
        let entry = self.entries.get_mut(&seq)?;
        let ring = entry.ring;
        let content = self.key.seal(kind, seq, ring, body);
        self.run_bytes = self.run_bytes.saturating_add(body.len() as u64);
        if let State::Done(Some(old)) = std::mem::replace(&mut entry.state, State::Done(Some(content.clone()))) {
            self.stored_bytes = self.stored_bytes.saturating_sub(old.len());
        } else {
            self.stored.push_back(seq);
        }
        self.stored_bytes += content.len();
        self.forget_old();
        Some(Outgoing { seq, ring, content })
    }

    fn forget_old(&mut self) {
        while self.stored_bytes > MAX_STORED_BYTES {
            let Some(seq) = self.stored.pop_front() else { return };
            if let Some(Entry { state: State::Done(answer), .. }) = self.entries.get_mut(&seq) {
                self.stored_bytes = self.stored_bytes.saturating_sub(answer.take().map_or(0, |a| a.len()));
            }
        }
    }

    fn violation(&mut self) -> Verdict {
        self.violations += 1;
        if self.violations > MAX_VIOLATIONS { Verdict::End("too many forged tool requests") } else { Verdict::Nothing }
    }
}

/// A request whose number was seen before.
fn again(key: &RunKey, seq: u32, entry: &mut Entry, digest: [u8; 32], ring: u32) -> Verdict {
    if entry.digest != digest {
        return Verdict::End("a tool request was sent again with another content");
    }
    match &entry.state {
        State::Queued(_) | State::Dispatched => Verdict::Nothing,
        State::Done(Some(content)) => Verdict::Send(Outgoing { seq, ring, content: content.clone() }),
        State::Done(None) => {
            let body =
                serde_json::json!({ "error": "The answer to this tool call was given before and is no longer held." });
            let content = key.seal(Kind::Answer, seq, ring, body.to_string().as_bytes());
            Verdict::Send(Outgoing { seq, ring, content })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seal::tests::request;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn key() -> RunKey {
        RunKey::new("run", [1; 32])
    }

    fn journal(limit: usize) -> Journal {
        Journal::new(key(), limit)
    }

    #[test]
    fn p3_a_replay_gets_the_stored_answer_and_is_not_dispatched_again() {
        let mut journal = journal(4);
        let content = request(&key(), 1, 5, b"{}");
        assert_eq!(journal.accept(1, &content), Verdict::Queued);
        assert_eq!(journal.accept(1, &content), Verdict::Nothing);
        assert_eq!(journal.next(), Some((1, Bytes::from_static(b"{}"))));
        assert_eq!(journal.accept(1, &content), Verdict::Nothing);
        let answer = journal.answer(1, b"42").unwrap();
        assert_eq!(journal.accept(1, &content), Verdict::Send(answer));
        assert_eq!(journal.next(), None);
    }

    #[test]
    fn p4_the_same_number_with_another_content_ends_the_run() {
        let mut journal = journal(4);
        journal.accept(1, &request(&key(), 1, 0, b"1"));
        assert!(matches!(journal.accept(1, &request(&key(), 1, 0, b"2")), Verdict::End(_)));
    }

    #[test]
    fn p2_forged_requests_are_dropped_and_counted() {
        let mut journal = journal(4);
        let other = RunKey::new("run", [2; 32]);
        for n in 1..=MAX_VIOLATIONS {
            assert_eq!(journal.accept(n, &request(&other, n, 0, b"{}")), Verdict::Nothing);
        }
        assert_eq!((journal.violations(), journal.next()), (MAX_VIOLATIONS, None));
        assert!(matches!(journal.accept(1, &request(&other, 1, 0, b"{}")), Verdict::End(_)));
    }

    #[test]
    fn faults_are_answered() {
        let Verdict::Send(sent) = journal(4).accept_fault(3, "request is a symbolic link") else {
            panic!("not answered")
        };
        assert!(sent.content.ends_with(br#"{"error":"Tool request refused: request is a symbolic link"}"#));
    }

    #[test]
    fn no_more_than_the_limit_are_under_way() {
        let mut journal = journal(2);
        for seq in 1..=5 {
            journal.accept(seq, &request(&key(), seq, 0, b"{}"));
        }
        assert_eq!((journal.next().unwrap().0, journal.next().unwrap().0, journal.next()), (1, 2, None));
        journal.answer(2, b"1");
        assert_eq!(journal.next().unwrap().0, 3);
    }

    #[test]
    fn old_answers_are_forgotten_but_replays_still_answered() {
        let mut journal = journal(4);
        let large = vec![b'x'; MAX_STORED_BYTES / 2];
        for seq in 1..=4 {
            journal.accept(seq, &request(&key(), seq, 0, b"{}"));
            journal.next();
            journal.answer(seq, &large);
            assert!(journal.stored_bytes <= MAX_STORED_BYTES);
        }
        let Verdict::Send(sent) = journal.accept(1, &request(&key(), 1, 0, b"{}")) else { panic!("ignored") };
        assert!(sent.content.ends_with(b"no longer held.\"}"));
    }

    #[derive(Debug, Clone)]
    enum Step {
        Request(u32, u8),
        Forged(u32),
        Fault(u32),
        Next,
        Answer(usize),
        Unsent(u32),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            (0u32..12, 0u8..2).prop_map(|(seq, body)| Step::Request(seq, body)),
            (0u32..12).prop_map(Step::Forged),
            (0u32..12).prop_map(Step::Fault),
            Just(Step::Next),
            (0usize..8).prop_map(Step::Answer),
            (0u32..12).prop_map(Step::Unsent),
        ]
    }

    proptest! {
        #[test]
        fn whatever_comes_each_call_is_given_out_at_most_once(steps in proptest::collection::vec(step(), 0..120)) {
            let mut journal = journal(3);
            let mut given = BTreeSet::new();
            let mut under_way: Vec<u32> = Vec::new();
            for step in steps {
                match step {
                    Step::Request(seq, body) => {
                        if let Verdict::End(_) = journal.accept(seq, &request(&key(), seq, 0, &[body])) { return Ok(()); }
                    }
                    Step::Forged(seq) => { journal.accept(seq, &Bytes::from_static(b"GP1 q")); }
                    Step::Fault(seq) => { journal.accept_fault(seq, "x"); }
                    Step::Next => if let Some((seq, _)) = journal.next() {
                        prop_assert!(given.insert(seq), "{} given out twice", seq);
                        under_way.push(seq);
                        prop_assert!(under_way.len() <= 3);
                    },
                    Step::Answer(at) => if !under_way.is_empty() {
                        let seq = under_way.remove(at % under_way.len());
                        prop_assert!(journal.answer(seq, b"1").is_some());
                    },
                    Step::Unsent(seq) => { journal.unsent(seq, 28); }
                }
            }
        }
    }
}
