//! The output pipeline: capture, decode, strip, redact, cut.
//!
//! Everything that leaves a run goes through here once: standard output and error, error texts, previews of tool calls,
//! prompts and logs. The order is fixed, because each later step relies on the one before:
//!
//! 1. [`Collector`] captures raw bytes into a head and a tail, each with a margin beyond what will be shown.
//! 2. Bytes become text, invalid ones as U+FFFD.
//! 3. Terminal control is stripped ([`strip`]).
//! 4. Secrets are found on a normalized view and masked in the text ([`Redactor`]).
//! 5. Only now the text is cut, at raw byte offsets, and what was dropped is counted in raw bytes.
//!
//! [`Clean`] is the type of text that went through; nothing outside this module can make one from arbitrary text.
//! [`Streamer`] does the same for text that is shown while it is still being written.
//!
//! Absent on purpose: this module does no I/O, reads no clock and no environment, and starts no thread. It does not
//! know about results, backends or tools. It is a net and not a wall: a script that transforms a secret which it was
//! able to read gets it past any redactor.

mod assign;
mod clean;
mod collector;
mod config;
mod cut;
mod families;
mod headers;
mod known;
mod mask;
mod opaque;
mod origins;
mod pem;
mod redactor;
mod scan;
mod stream;
mod strip;
mod urls;
mod values;
mod view;

#[cfg(test)]
mod tests;

pub use clean::Clean;
pub use collector::{Captured, Collector, Limits};
pub use config::{ExtraRule, MaskStyle, RedactError};
pub use families::{FAMILIES, Family, Lead, Loose, Part, Sampler};
pub use known::Refused;
pub use redactor::{Redactor, RedactorBuilder};
pub use scan::Class;
pub use stream::Streamer;
pub use strip::strip;
