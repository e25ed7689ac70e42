//! Whether the value of an assignment is a secret one, or a placeholder, a reference, a number, a word.

use std::sync::LazyLock;

use aho_corasick::AhoCorasick;

use super::assign::{Kind, Style};
use super::known;
use super::mask;
use super::opaque::{Traits, reads_like_words, surprise};
use super::view::MASKED;

/// Shortest value that is masked anywhere.
const MIN_VALUE: usize = 4;

/// What is looked at of a value.
const MAX_LOOK: usize = 512;

/// Values that stand for a secret that is not there.
static PLACEHOLDERS: LazyLock<Option<AhoCorasick>> = LazyLock::new(|| AhoCorasick::new(STAND_INS).ok());

const STAND_INS: &[&str] = &[
    "your",
    "example",
    "changeme",
    "change_me",
    "change-me",
    "placeholder",
    "dummy",
    "redacted",
    "insert",
    "replace",
    "todo",
    "fixme",
    "xxxx",
    "****",
    "....",
    "sample",
    "foobar",
    "not_set",
    "not-set",
    "unset",
    "hidden",
    "masked",
    "omitted",
    "my_",
    "my-",
    "fake",
];

/// Values that are words of a language or the name of what should stand there.
const PLAIN_WORDS: &[&str] = &[
    "none",
    "null",
    "true",
    "false",
    "undefined",
    "nil",
    "yes",
    "no",
    "on",
    "off",
    "required",
    "optional",
    "string",
    "str",
    "bytes",
    "int",
    "bool",
    "any",
    "object",
    "password",
    "passwd",
    "pass",
    "passphrase",
    "token",
    "key",
    "secret",
    "test",
    "testing",
    "username",
    "user",
    "default",
    "auto",
    "disabled",
    "enabled",
    "empty",
    "basic",
    "bearer",
    "digest",
    "value",
    "self",
    "default_value",
    "api_key",
    "apikey",
    "api-key",
    "private",
    "public",
    "input",
    "prompt",
    "ask",
    "file",
    "env",
];

/// What a reference to a value begins with.
const REFERENCES: &[&str] = &[
    "$",
    "%(",
    "%{",
    "{",
    "<",
    "[",
    "(",
    "@",
    "*",
    "os.environ",
    "os.getenv",
    "process.env",
    "env.",
    "env:",
    "getenv",
    "std::env",
    "self.",
    "config.",
    "settings.",
    "args.",
    "options.",
    "secrets.",
    "vault:",
    "op://",
    "ssm:",
    "sops:",
    "file:",
    "!",
    "#",
    "%s",
    "%d",
    "%r",
    "enc[",
];

/// Whether `value` must be masked.
pub(super) fn is_secret(value: &[u8], kind: Kind, style: Style) -> bool {
    let value = &value[..value.len().min(MAX_LOOK)];
    if value.len() < MIN_VALUE || value.contains(&MASKED) || mask::is_masked_value(value) {
        return false;
    }
    let lower = value.to_ascii_lowercase();
    if is_reference(&lower, style)
        || is_placeholder(&lower)
        || is_number(value, kind, style)
        || is_place(value)
        || is_constant(value)
    {
        return false;
    }
    match kind {
        Kind::Password => is_password(value, style),
        Kind::Key => is_key(value, style),
        Kind::SomeKey => is_some_key(value, style),
        Kind::PlainKey => is_plain_key(value),
    }
}

/// Whether a value by itself, in a place where only a secret stands (after `Bearer`, in a cookie), is one.
pub(super) fn is_credential(value: &[u8]) -> bool {
    let lower = value.to_ascii_lowercase();
    value.len() >= 8
        && !value.contains(&MASKED)
        && !mask::is_masked_value(value)
        && !is_reference(&lower, Style::Wire)
        && !is_placeholder(&lower)
}

fn is_password(value: &[u8], style: Style) -> bool {
    if style == Style::Environment {
        return true;
    }
    let traits = Traits::of(value);
    let is_mixed = traits.has_digit && traits.has_letter() || traits.has_other && traits.has_letter();
    let has_blank = value.contains(&b' ');
    match style {
        _ if has_blank => value.len() >= 12 && traits.has_digit && surprise(value) > 12.0,
        Style::Wire => value.len() >= 6,
        _ if value.len() < 6 => false,
        Style::Listed => traits.has_digit && is_mixed && surprise(value) > 0.0,
        Style::Quoted => !is_dictionary_word(value) && value.iter().all(|byte| *byte >= b' '),
        _ => traits.has_digit && is_mixed && surprise(value) > -3.0 || surprise(value) > 10.0,
    }
}

fn is_dictionary_word(value: &[u8]) -> bool {
    std::str::from_utf8(value).is_ok_and(|value| known::is_word(&value.to_lowercase()))
}

fn is_key(value: &[u8], style: Style) -> bool {
    if value.contains(&b' ') {
        return false;
    }
    let traits = Traits::of(value);
    match style {
        Style::Environment => value.len() >= 6,
        Style::Wire => value.len() >= 8 && (traits.has_digit || surprise(value) > 0.0 || value.len() >= 20),
        Style::Quoted | Style::Listed => is_opaque(value, 8, 4.0),
        // In code, a type stands here.
        Style::Bare => is_opaque(value, 8, 9.0),
    }
}

fn is_some_key(value: &[u8], style: Style) -> bool {
    if value.contains(&b' ') {
        return false;
    }
    match style {
        Style::Environment => {
            value.len() >= 6 && (Traits::of(value).has_digit || surprise(value) > 0.0 || value.len() >= 16)
        }
        Style::Wire => is_opaque(value, 8, 4.0),
        Style::Quoted | Style::Listed | Style::Bare => is_opaque(value, 12, 8.0),
    }
}

fn is_plain_key(value: &[u8]) -> bool {
    let is_hex = value.iter().all(|byte| byte.is_ascii_hexdigit() || *byte == b'-');
    !is_hex && !value.contains(&b'\\') && !value.contains(&b' ') && is_opaque(value, 16, 16.0)
}

fn is_opaque(value: &[u8], min: usize, bits: f32) -> bool {
    let traits = Traits::of(value);
    let is_text = value.iter().all(u8::is_ascii_graphic);
    let is_mixed = traits.has_digit && traits.has_letter();
    is_text
        && value.len() >= min
        && (is_mixed && surprise(value) > bits || value.len() >= 16 && surprise(value) > bits + 6.0)
}

fn is_reference(lower: &[u8], style: Style) -> bool {
    let begins = REFERENCES.iter().any(|reference| lower.starts_with(reference.as_bytes()));
    // A password in an environment may begin with anything; only expansions are references there.
    let is_loose = style == Style::Environment && !matches!(lower[0], b'$' | b'{' | b'<' | b'%');
    let holds = |text: &[u8]| lower.windows(text.len()).any(|window| window == text);
    begins && !is_loose || holds(b"${") || holds(b"{{") || holds(b"$(")
}

fn is_placeholder(lower: &[u8]) -> bool {
    let holds_stand_in = PLACEHOLDERS.as_ref().is_some_and(|placeholders| placeholders.is_match(lower));
    let is_repeated = lower.iter().all(|byte| *byte == lower[0]);
    is_repeated || lower.ends_with(b"...") || PLAIN_WORDS.iter().any(|word| lower == word.as_bytes()) || holds_stand_in
}

/// A number, a date or a version is no secret unless it is quoted as a password.
fn is_number(value: &[u8], kind: Kind, style: Style) -> bool {
    let is_number =
        value.iter().all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b'_' | b'-' | b'+' | b':' | b','));
    let is_constant = kind != Kind::PlainKey && value[0].is_ascii_digit() && value.len() <= 18 && is_code_number(value);
    let is_pin =
        kind == Kind::Password && style != Style::Bare && value.len() >= 6 && value.iter().all(u8::is_ascii_digit);
    (is_constant || is_number) && !is_pin
}

/// A number as code writes it: `2966u32`, `0x1F`, `1_000ms`.
fn is_code_number(value: &[u8]) -> bool {
    if value.starts_with(b"0x") || value.starts_with(b"0X") {
        return value[2..].iter().all(|byte| byte.is_ascii_hexdigit() || *byte == b'_');
    }
    let digits = value.iter().take_while(|byte| byte.is_ascii_digit() || **byte == b'_' || **byte == b'.').count();
    let unit = &value[digits..];
    let is_type = matches!(unit, [b'u' | b'i' | b'f', rest @ ..] if matches!(rest, b"8" | b"16" | b"32" | b"64" | b"128" | b"size"));
    is_type || unit.len() <= 2 && unit.iter().all(u8::is_ascii_alphabetic)
}

/// The name of a constant or of another variable: `OTHER_TOKEN`, `url_password`.
fn is_constant(value: &[u8]) -> bool {
    let is_upper = value.iter().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || *byte == b'_');
    let is_lower = value.iter().all(|byte| byte.is_ascii_lowercase() || *byte == b'_');
    (is_upper || is_lower) && value.contains(&b'_') && reads_like_words(value)
}

/// A path or a URL. Secrets in URLs are found by their place in it.
fn is_place(value: &[u8]) -> bool {
    let starts = |text: &[u8]| value.starts_with(text);
    let is_url = value.windows(3).any(|window| window == b"://");
    let is_path = starts(b"/") || starts(b"./") || starts(b"../") || starts(b"~/") || value.get(1..3) == Some(b":\\");
    is_url || is_path && surprise(value) < 8.0
}
