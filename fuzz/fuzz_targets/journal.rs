//! Requests of a script: whatever comes in whatever order, each call is dispatched at most once, and only if its seal is right.
#![no_main]

use gloveport_backends::fuzzing::{Event, journal};
use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;

/// Numbers are few, so that events meet.
#[derive(Debug, Arbitrary)]
enum Step {
    Sealed(u8, u8, Vec<u8>),
    Raw(u8, Vec<u8>),
    Fault(u8, String),
    Next,
    Answer(u8, Vec<u8>),
    Unsent(u8, u32),
}

fuzz_target!(|steps: Vec<Step>| {
    let number = |seq: &u8| u32::from(seq % 16);
    journal(steps.iter().map(|step| match step {
        Step::Sealed(seq, ring, body) => Event::Sealed(number(seq), u32::from(*ring), body),
        Step::Raw(seq, content) => Event::Raw(number(seq), content),
        Step::Fault(seq, text) => Event::Fault(number(seq), text),
        Step::Next => Event::Next,
        Step::Answer(at, body) => Event::Answer(*at, body),
        Step::Unsent(seq, errno) => Event::Unsent(number(seq), *errno),
    }));
});
