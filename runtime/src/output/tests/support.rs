//! What the tests share.

use crate::output::{Captured, Collector, FAMILIES, Family, Limits, Redactor, Sampler};

/// A redactor with every family on, the optional ones too.
pub(super) fn redactor() -> Redactor {
    Redactor::new().expect("the built-in table compiles")
}

/// The row of this name.
pub(super) fn family(name: &str) -> &'static Family {
    FAMILIES.iter().find(|family| family.name == name).expect("a family of this name")
}

/// A sample of the family of this name.
pub(super) fn sample(name: &str, seed: u64) -> String {
    Sampler::new(seed).token(family(name))
}

/// An opaque value that no vendor's rule knows.
pub(super) fn opaque(seed: u64, len: usize) -> String {
    let value = Sampler::new(seed).text(crate::output::scan::Class::Alnum, len - 2);
    format!("q{value}7")
}

/// The text without the names of its masks.
pub(super) fn unmasked(text: &str) -> String {
    let mut shown = String::new();
    for (index, piece) in text.split("[REDACTED:").enumerate() {
        shown.push_str(if index == 0 { piece } else { piece.split_once(']').map_or("", |(_, rest)| rest) });
        shown.push('\n');
    }
    shown
}

/// A piece of eight characters of `secret` in `text`.
pub(super) fn leak(text: &str, secret: &str) -> Option<String> {
    let text: String = unmasked(text).chars().filter(|char| !crate::output::view::is_invisible(*char)).collect();
    let chars: Vec<char> = secret.chars().filter(|char| !char.is_whitespace()).collect();
    chars.windows(8.min(chars.len())).map(|piece| piece.iter().collect::<String>()).find(|piece| text.contains(piece))
}

/// Fails if eight characters in a row of the secret are in the text.
#[track_caller]
pub(super) fn assert_sealed(text: &str, secret: &str) {
    if let Some(piece) = leak(text, secret) {
        panic!("{piece:?} of {secret:?} is in {text:?}");
    }
}

/// What is shown of these bytes.
pub(super) fn capture(bytes: &[u8], limits: Limits, redactor: &Redactor) -> Captured {
    let mut collector = Collector::new(limits);
    collector.push(bytes);
    collector.finish(redactor)
}

/// Small limits, so that every offset can be tried.
pub(super) const SMALL: Limits = Limits { head: 60, tail: 80, margin: 256 };

/// Fails unless the text comes through as it is.
#[track_caller]
pub(super) fn assert_unchanged(redactor: &Redactor, text: &str) {
    assert_eq!(redactor.clean(text).as_str(), text);
}
