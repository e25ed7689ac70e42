//! Which image a script runs in.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Longest name of an image.
const LONGEST_NAME: usize = 64;

/// Name of the image that the program carries.
pub const SLIM: &str = "slim";

/// The image of the local backend.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum ImageChoice {
    /// The one that this program carries: the standard library.
    #[default]
    Slim,
    /// For each script the first image that has what it imports: slim, then those that were built, by name.
    Auto,
    /// An image that was built, by its name.
    Named(String),
    /// The directory of an image.
    Directory(PathBuf),
}

/// A text that names no image.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no image: use `slim`, `auto`, a name of small letters, digits, `-` and `_`, or a path with a `/`")]
pub struct NoImage(String);

impl ImageChoice {
    /// Whether a text can be the name of an image that is built.
    #[must_use]
    pub fn is_name(text: &str) -> bool {
        let fits = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, b'-' | b'_');
        !text.is_empty()
            && text.len() <= LONGEST_NAME
            && text.bytes().all(fits)
            && text.as_bytes()[0].is_ascii_alphanumeric()
            && !matches!(text, SLIM | "auto")
    }
}

impl FromStr for ImageChoice {
    type Err = NoImage;

    fn from_str(text: &str) -> Result<Self, NoImage> {
        match text {
            SLIM => Ok(Self::Slim),
            "auto" => Ok(Self::Auto),
            path if path.contains('/') => Ok(Self::Directory(path.into())),
            name if Self::is_name(name) => Ok(Self::Named(name.to_owned())),
            other => Err(NoImage(other.to_owned())),
        }
    }
}

impl fmt::Display for ImageChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Slim => f.write_str(SLIM),
            Self::Auto => f.write_str("auto"),
            Self::Named(name) => f.write_str(name),
            Self::Directory(path) => path.display().fmt(f),
        }
    }
}

impl Serialize for ImageChoice {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ImageChoice {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_and_choices() {
        assert_eq!("slim".parse(), Ok(ImageChoice::Slim));
        assert_eq!("auto".parse(), Ok(ImageChoice::Auto));
        assert_eq!("science".parse(), Ok(ImageChoice::Named("science".into())));
        assert_eq!("./my".parse(), Ok(ImageChoice::Directory("./my".into())));
        for wrong in ["", "Science", "a b", "..", "-x", "é"] {
            assert_eq!(wrong.parse::<ImageChoice>(), Err(NoImage(wrong.into())), "{wrong}");
        }
    }
}
