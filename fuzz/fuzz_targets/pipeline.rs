//! The whole pipeline: a known value and a generated key put anywhere into any writes are in no sink, whole or in pieces
//! of eight characters, and a stream shows what the whole text shows.
#![no_main]

use std::sync::LazyLock;

use gloveport::output::{Collector, FAMILIES, Limits, Redactor, Sampler, Streamer};
use libfuzzer_sys::fuzz_target;

const VALUE: &str = "zq9-Torn+widget/41";

static REDACTOR: LazyLock<Redactor> = LazyLock::new(|| Redactor::builder().known("X", VALUE.into()).build().unwrap());

fuzz_target!(|input: (u8, u8, u16, Vec<u8>, Vec<u8>)| {
    let (head, tail, seed, before, after) = input;
    let family = &FAMILIES[usize::from(seed) % FAMILIES.len()];
    let key = Sampler::new(u64::from(seed)).token(family);
    let alone = REDACTOR.clean(&format!(" {key} "));
    if !family.is_default || leaks(alone.as_str(), &key) {
        return;
    }
    // A line of its own: what stands next to a key decides whether it is one.
    let bytes = [&before[..], format!("\n{key}\n{VALUE}\n").as_bytes(), &after[..]].concat();
    let limits = Limits { head: head.into(), tail: tail.into(), margin: Limits::MARGIN };
    let mut collector = Collector::new(limits);
    let mut streamer = Streamer::new(REDACTOR.clone());
    let mut streamed = String::new();
    for write in bytes.chunks(usize::from(seed % 37) + 1) {
        collector.push(write);
        streamed.push_str(streamer.push(write).as_str());
        if seed % 2 == 0 {
            streamed.push_str(streamer.tick().as_str());
        }
    }
    streamed.push_str(streamer.finish().as_str());
    let captured = collector.finish(&REDACTOR);
    assert_eq!(captured.kept + captured.omitted, bytes.len() as u64);
    for text in [captured.text.as_str(), &streamed] {
        assert!(!leaks(text, VALUE), "{text}");
        assert!(!leaks(text, &key), "{key}: {text}");
    }
});

fn leaks(text: &str, secret: &str) -> bool {
    let mut shown = String::new();
    for (index, piece) in text.split("[REDACTED:").enumerate() {
        shown.push_str(if index == 0 { piece } else { piece.split_once(']').map_or("", |(_, rest)| rest) });
        shown.push('\n');
    }
    (0..secret.len().saturating_sub(7)).any(|at| secret.get(at..at + 8).is_some_and(|piece| shown.contains(piece)))
}
