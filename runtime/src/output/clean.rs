//! Text that went through the pipeline.

use std::fmt;

use serde::{Serialize, Serializer};

use super::mask;

/// Text that is safe to leave a run: decoded, stripped of terminal control, and redacted.
///
/// Only this module makes one out of arbitrary text. Outside of it, a `Clean` is put together from other `Clean`s and
/// from text that is part of the program.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Clean(String);

impl Clean {
    /// The empty text.
    pub const fn new() -> Self {
        Self(String::new())
    }

    /// Wraps text that the pipeline has produced.
    pub(super) fn from_pipeline(text: String) -> Self {
        Self(text)
    }

    /// Text that is part of the program.
    pub fn from_static(text: &'static str) -> Self {
        Self(text.to_owned())
    }

    /// A whole number.
    pub fn number(number: impl Into<i128>) -> Self {
        Self(number.into().to_string())
    }

    /// A whole number with thousands commas, as in `1,234,567`.
    pub fn grouped(number: u64) -> Self {
        let digits = number.to_string();
        let mut text = String::with_capacity(digits.len() + digits.len() / 3);
        for (index, digit) in digits.chars().enumerate() {
            if index > 0 && (digits.len() - index).is_multiple_of(3) {
                text.push(',');
            }
            text.push(digit);
        }
        Self(text)
    }

    /// A decimal number with `places` digits after the point.
    pub fn decimal(number: f64, places: usize) -> Self {
        Self(format!("{number:.places$}"))
    }

    /// All parts, one after another.
    pub fn concat<'a>(parts: impl IntoIterator<Item = &'a Self>) -> Self {
        Self(parts.into_iter().map(Self::as_str).collect())
    }

    /// All parts with `separator` between them.
    pub fn join<'a>(parts: impl IntoIterator<Item = &'a Self>, separator: &'static str) -> Self {
        let parts: Vec<&str> = parts.into_iter().map(Self::as_str).collect();
        Self(parts.join(separator))
    }

    /// Fills each `{}` of `template` with the next part. Holes without a part stay empty, parts without a hole are
    /// left out.
    ///
    /// ```ignore
    /// let text = Clean::format("Script exited with code {}", &[&Clean::number(3)]);
    /// ```
    pub fn format(template: &'static str, parts: &[&Self]) -> Self {
        let mut text = String::with_capacity(template.len() + parts.iter().map(|part| part.len()).sum::<usize>());
        let mut parts = parts.iter();
        for (index, piece) in template.split("{}").enumerate() {
            if index > 0 {
                text.push_str(parts.next().map_or("", |part| part.as_str()));
            }
            text.push_str(piece);
        }
        Self(text)
    }

    /// Appends another clean text.
    pub fn push(&mut self, other: &Self) {
        self.0.push_str(&other.0);
    }

    /// Appends text that is part of the program.
    pub fn push_static(&mut self, text: &'static str) {
        self.0.push_str(text);
    }

    /// At most `max_chars` characters. A text that is longer ends in `…`, and a mask is dropped rather than cut.
    #[must_use]
    pub fn shortened(&self, max_chars: usize) -> Self {
        let Some((_, _)) = self.0.char_indices().nth(max_chars) else {
            return self.clone();
        };
        let keep = max_chars.saturating_sub(1);
        let mut end = self.0.char_indices().nth(keep).map_or(self.0.len(), |(at, _)| at);
        if let Some(mask) =
            mask::existing(&self.0, |_| true).into_iter().find(|mask| mask.start < end && end < mask.end)
        {
            end = mask.start;
        }
        let mut text = self.0[..end].to_owned();
        if max_chars > 0 {
            text.push('…');
        }
        Self(text)
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The text, as an owned string.
    pub fn into_string(self) -> String {
        self.0
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is no text.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The text without white space at its end.
    #[must_use]
    pub fn trimmed_end(&self) -> Self {
        Self(self.0.trim_end().to_owned())
    }

    /// The lines of the text, each clean as the whole is.
    pub fn lines(&self) -> impl Iterator<Item = Self> + '_ {
        self.0.lines().map(|line| Self(line.to_owned()))
    }
}

impl fmt::Display for Clean {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(&self.0)
    }
}

impl AsRef<str> for Clean {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl From<Clean> for String {
    fn from(clean: Clean) -> Self {
        clean.0
    }
}

impl PartialEq<str> for Clean {
    fn eq(&self, other: &str) -> bool {
        self.0 == other
    }
}

impl PartialEq<&str> for Clean {
    fn eq(&self, other: &&str) -> bool {
        self.0 == *other
    }
}

impl Serialize for Clean {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}
