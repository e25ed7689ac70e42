//! Counts add up for any bytes, limits and writes, and the shown text is one that the limits allow.
#![no_main]

use std::sync::LazyLock;

use gloveport::output::{Collector, Limits, Redactor};
use libfuzzer_sys::fuzz_target;

static OFF: LazyLock<Redactor> = LazyLock::new(|| Redactor::builder().enabled(false).build().unwrap());

fuzz_target!(|input: (u8, u8, u8, Vec<Vec<u8>>)| {
    let (head, tail, margin, writes) = input;
    let limits = Limits { head: head.into(), tail: tail.into(), margin: margin.into() };
    let mut collector = Collector::new(limits);
    for write in &writes {
        collector.push(write);
    }
    let bytes = writes.concat();
    let captured = collector.finish(&OFF);
    assert_eq!(captured.total, bytes.len() as u64);
    assert_eq!(captured.kept + captured.omitted, captured.total);
    assert_eq!(captured.truncated, bytes.len() > limits.shown());
    if bytes.is_ascii() && !bytes.contains(&0x1b) {
        let kept = captured.text.as_str();
        let head = &bytes[..bytes.len().min(limits.head)];
        assert!(kept.as_bytes().starts_with(head));
        if captured.truncated && limits.tail > 0 {
            assert!(kept.as_bytes().ends_with(&bytes[bytes.len() - limits.tail..]));
        }
    }
});
