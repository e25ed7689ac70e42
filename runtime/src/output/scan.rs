//! Byte classes and token boundaries.

use super::view::{MASKED, View};

/// The characters that a part of a token is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// `0-9`
    Digit,
    /// `0-9a-f`
    Hex,
    /// `0-9a-fA-F`
    HexAny,
    /// `A-Z`
    Upper,
    /// `A-Z0-9`
    UpperDigit,
    /// `a-z0-9`
    LowerDigit,
    /// `A-Za-z0-9`
    Alnum,
    /// `A-Za-z0-9_`
    Word,
    /// `A-Za-z0-9-`
    Dashed,
    /// `A-Za-z0-9_-`: URL-safe base64
    Url,
    /// `A-Za-z0-9_.-`: URL-safe base64 in dotted parts
    Dotted,
    /// `A-Za-z0-9_=-`: URL-safe base64 with padding
    UrlPadded,
    /// `A-Za-z0-9+/=`: base64
    Base64,
}

impl Class {
    /// Whether the class holds this byte.
    pub fn has(self, byte: u8) -> bool {
        match self {
            Self::Digit => byte.is_ascii_digit(),
            Self::Hex => matches!(byte, b'0'..=b'9' | b'a'..=b'f'),
            Self::HexAny => byte.is_ascii_hexdigit(),
            Self::Upper => byte.is_ascii_uppercase(),
            Self::UpperDigit => matches!(byte, b'0'..=b'9' | b'A'..=b'Z'),
            Self::LowerDigit => matches!(byte, b'0'..=b'9' | b'a'..=b'z'),
            Self::Alnum => byte.is_ascii_alphanumeric(),
            Self::Word => is_word(byte),
            Self::Dashed => byte.is_ascii_alphanumeric() || byte == b'-',
            Self::Url => is_word(byte) || byte == b'-',
            Self::Dotted => is_word(byte) || matches!(byte, b'-' | b'.'),
            Self::UrlPadded => is_word(byte) || matches!(byte, b'-' | b'='),
            Self::Base64 => byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'='),
        }
    }

    /// Every byte of the class.
    pub fn alphabet(self) -> Vec<u8> {
        (0x21..0x7f).filter(|byte| self.has(*byte)).collect()
    }
}

/// Whether a byte can be part of an identifier.
pub(super) fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// Length of the run of bytes at `from` for which `holds`, up to `max`.
pub(super) fn run(bytes: &[u8], from: usize, max: usize, holds: impl Fn(u8) -> bool) -> usize {
    bytes.get(from..).unwrap_or_default().iter().take(max).take_while(|byte| holds(**byte)).count()
}

/// Length of the run of bytes before `end` for which `holds`, up to `max`.
pub(super) fn run_back(bytes: &[u8], end: usize, max: usize, holds: impl Fn(u8) -> bool) -> usize {
    bytes[..end].iter().rev().take(max).take_while(|byte| holds(**byte)).count()
}

/// Whether a token may begin at `at`: the byte before is no letter or digit, or it belongs to something that ends
/// there, such as an escape sequence written out (`\n`, `\x1b[31m`, `%22`, `\u0022`).
pub(super) fn starts_token(view: &View<'_>, at: usize) -> bool {
    let bytes = view.bytes();
    let Some(&before) = at.checked_sub(1).and_then(|index| bytes.get(index)) else {
        return true;
    };
    if !before.is_ascii_alphanumeric() || before == MASKED || view.is_gap(at) {
        return true;
    }
    let ends = |text: &[u8]| bytes[..at].ends_with(text);
    if matches!(before, b'n' | b'r' | b't' | b'f' | b'b' | b'v' | b'0') && at >= 2 && bytes[at - 2] == b'\\' {
        return true;
    }
    if before == b'm' {
        let parameters = run_back(bytes, at - 1, 16, |byte| byte.is_ascii_digit() || byte == b';');
        return bytes[..at - 1 - parameters].ends_with(b"[");
    }
    if !before.is_ascii_hexdigit() {
        return false;
    }
    let is_hex = |len: usize| at > len && bytes[at - len..at].iter().all(u8::is_ascii_hexdigit);
    let introduced = |len: usize, by: &[u8]| is_hex(len) && bytes[..at - len].ends_with(by);
    introduced(2, b"%") || introduced(2, b"\\x") || introduced(4, b"\\u") || ends(b"\\033")
}

/// Whether a token may end at `at`.
pub(super) fn ends_token(view: &View<'_>, at: usize) -> bool {
    view.bytes().get(at).is_none_or(|byte| !is_word(*byte)) || view.is_gap(at)
}
