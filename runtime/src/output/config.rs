//! What can be set about redaction, and what can be wrong with it.

use serde::{Deserialize, Serialize};

/// How a secret is masked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MaskStyle {
    /// `[REDACTED:family]`: no piece of the value, and not its length.
    #[default]
    Full,
    /// `***` for values under 18 characters, else the first 6, `...` and the last 4: for drop-in use where people tell
    /// keys apart by their ends.
    Partial,
}

/// A pattern of the user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExtraRule {
    /// Names the mask: ASCII letters, digits, `_`, `-` and `.`, at most 64 of them.
    pub name: String,
    /// A pattern in the syntax of the `regex` crate. If it has a capture group, the first one is masked, else all of it.
    pub regex: String,
}

/// Why a redactor could not be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RedactError {
    /// A name in the list of families is none of ours.
    #[error("unknown redaction family {name:?}")]
    UnknownFamily {
        /// The name as it was given.
        name: String,
    },
    /// A user pattern's name can't stand in a mask.
    #[error("the name of a redaction pattern must be 1 to 64 ASCII letters, digits, `_`, `-` or `.`, not {name:?}")]
    BadName {
        /// The name as it was given.
        name: String,
    },
    /// A user pattern is not valid, or too large once compiled.
    #[error("redaction pattern {name:?} can't be used")]
    BadPattern {
        /// The pattern's name.
        name: String,
        /// What the engine says about it.
        #[source]
        source: Box<regex::Error>,
    },
    /// A user pattern is longer than 1,000 bytes.
    #[error("redaction pattern {name:?} has {length} bytes; at most 1000 are allowed")]
    LongPattern {
        /// The pattern's name.
        name: String,
        /// Its length in bytes.
        length: usize,
    },
    /// A user pattern matches the empty text, and so everywhere.
    #[error("redaction pattern {name:?} matches the empty text")]
    EmptyMatch {
        /// The pattern's name.
        name: String,
    },
    /// There are more than 64 user patterns.
    #[error("{count} redaction patterns are given; at most 64 are allowed")]
    TooManyPatterns {
        /// How many there are.
        count: usize,
    },
    /// The known values are too many or too long for one automaton.
    #[error("the known secret values can't be compiled")]
    TooManyValues(#[source] Box<aho_corasick::BuildError>),
}
