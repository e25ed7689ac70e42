//! Requests of a script: whatever comes in whatever order, each call is dispatched at most once, and only if its seal is right.
#![no_main]

use gloveport_backends::fuzzing::{Event, journal};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|steps: Vec<(u8, u8, u8, Vec<u8>)>| {
    journal(steps.iter().map(|(kind, seq, extra, bytes)| {
        // Numbers are few, so that events meet.
        let (seq, extra) = (u32::from(seq % 16), u32::from(*extra));
        match kind % 8 {
            0..=2 => Event::Sealed(seq, extra, bytes),
            3 => Event::Raw(seq, bytes),
            4 => Event::Fault(seq, "request is no regular file"),
            5 => Event::Next,
            6 => Event::Answer(kind / 8, bytes),
            _ => Event::Unsent(seq, extra),
        }
    }));
});
