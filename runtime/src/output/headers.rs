//! Credentials in HTTP headers: schemes of `Authorization`, and cookies.

use super::mask::Rank;
use super::opaque::{Traits, surprise};
use super::redactor::Findings;
use super::scan;
use super::values;
use super::view::View;

const HEADER: &str = "header";
const COOKIE: &str = "cookie";
/// Longest credential.
const MAX_CREDENTIAL: usize = 8192;
/// Longest list of cookies.
const MAX_COOKIES: usize = 16 * 1024;
/// Cookie attributes that are no cookies.
const ATTRIBUTES: &[&[u8]] =
    &[b"path", b"domain", b"expires", b"max-age", b"samesite", b"secure", b"httponly", b"priority", b"version"];

/// Reports credentials after `Bearer`, `Basic` and the like, in `Authorization` headers, and in cookies.
pub(super) fn find(view: &View<'_>, findings: &mut Findings<'_, '_>) {
    let bytes = view.bytes();
    let mut at = 0;
    // A line is read once, however often it says that it is a header.
    let mut done = 0;
    while let Some(offset) = bytes[at..].iter().position(|byte| matches!(byte | 0x20, b'a' | b'b' | b'c')) {
        at += offset;
        let is_start = at == 0 || !bytes[at - 1].is_ascii_alphanumeric() || scan::starts_token(view, at);
        if is_start {
            scheme(bytes, at, findings);
            if at >= done {
                done = authorization(bytes, at, findings).or_else(|| cookies(bytes, at, findings)).unwrap_or(done);
            }
        }
        at += 1;
    }
}

fn has_word(bytes: &[u8], at: usize, word: &[u8]) -> bool {
    bytes.get(at..at + word.len()).is_some_and(|text| text.eq_ignore_ascii_case(word))
}

fn is_credential_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~' | b'+' | b'/' | b'=' | b':' | b'%')
}

/// `Bearer …` and `Basic …` wherever they stand.
fn scheme(bytes: &[u8], at: usize, findings: &mut Findings<'_, '_>) {
    let (word, is_basic) = match bytes[at] | 0x20 {
        b'b' if has_word(bytes, at, b"bearer") => (6, false),
        b'b' if has_word(bytes, at, b"basic") => (5, true),
        _ => return,
    };
    let blanks = scan::run(bytes, at + word, 4, |byte| matches!(byte, b' ' | b'\t'));
    if blanks == 0 {
        return;
    }
    let start = at + word + blanks;
    let end = start + scan::run(bytes, start, MAX_CREDENTIAL, is_credential_byte);
    let end = end - scan::run_back(&bytes[start..], end - start, 2, |byte| matches!(byte, b'.' | b':'));
    let value = &bytes[start..end];
    let is_secret = if is_basic { is_basic_pair(value) } else { is_bearer(value) };
    if is_secret {
        findings.push(start..end, HEADER, Rank::Shape);
    }
}

fn is_bearer(value: &[u8]) -> bool {
    let traits = Traits::of(value);
    let is_random = traits.has_digit && traits.has_letter() && surprise(value) > 0.0 || surprise(value) > 8.0;
    values::is_credential(value) && (is_random || value.len() >= 24 && traits.has_digit)
}

/// Whether a value is base64 of `name:password`.
fn is_basic_pair(value: &[u8]) -> bool {
    let is_padded = value.len().is_multiple_of(4);
    let value: &[u8] = value.split(|byte| *byte == b'=').next().unwrap_or_default();
    if !is_padded || value.len() < 6 || !values::is_credential(&[value, b"=="].concat()) {
        return false;
    }
    let mut bits = 0_u32;
    let mut count = 0;
    let mut has_colon = false;
    for byte in value {
        let code = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' | b'-' => 62,
            b'/' | b'_' => 63,
            _ => return false,
        };
        bits = bits << 6 | u32::from(code);
        count += 6;
        if count >= 8 {
            count -= 8;
            let decoded = bits >> count & 0xff;
            if decoded < 0x20 {
                return false;
            }
            has_colon |= decoded == u32::from(b':');
        }
    }
    has_colon
}

/// `Authorization: SCHEME credential`, with the quotes that a dict or JSON puts between, for schemes of any name.
/// Returns how far it has read.
fn authorization(bytes: &[u8], at: usize, findings: &mut Findings<'_, '_>) -> Option<usize> {
    if !has_word(bytes, at, b"authorization") {
        return None;
    }
    let mut start = at + b"authorization".len();
    let junk = scan::run(bytes, start, 16, |byte| matches!(byte, b'"' | b'\'' | b'\\' | b' ' | b'\t' | b']'));
    let is_header = match bytes.get(start + junk) {
        Some(b':') => true,
        Some(b'=') => {
            junk == 0 && bytes.get(start + 1) != Some(&b' ') || junk > 0 && matches!(bytes[start], b'"' | b'\'')
        }
        _ => false,
    };
    if !is_header {
        return None;
    }
    start += junk + 1;
    start += scan::run(bytes, start, 16, |byte| matches!(byte, b'"' | b'\'' | b'\\' | b' ' | b'\t'));
    let scheme = scan::run(bytes, start, 32, |byte| byte.is_ascii_alphanumeric() || byte == b'-');
    let blanks = scan::run(bytes, start + scheme, 4, |byte| byte == b' ');
    if scheme > 0 && blanks > 0 && bytes[start].is_ascii_alphabetic() {
        start += scheme + blanks;
    }
    let end = start
        + scan::run(bytes, start, MAX_CREDENTIAL, |byte| {
            is_credential_byte(byte) || matches!(byte, b'!' | b'@' | b'*' | b'^')
        });
    let value = &bytes[start..end];
    let starts_line = at == 0 || matches!(bytes[at - 1], b'\n' | b'"' | b'\'' | b' ' | b'-' | b'>');
    let is_word = !Traits::of(value).has_digit && surprise(value) < 2.0;
    if starts_line && values::is_credential(value) && !is_word {
        findings.push(start..end, HEADER, Rank::Shape);
    }
    Some(parameters(bytes, end, findings))
}

/// The parameters of `Digest username="…", response="…"` and `AWS4-HMAC-SHA256 …, Signature=…`.
fn parameters(bytes: &[u8], from: usize, findings: &mut Findings<'_, '_>) -> usize {
    let line = scan::run(bytes, from, 2048, |byte| byte != b'\n');
    let text = &bytes[from..from + line];
    for name in [&b"response=\""[..], b"Signature=", b"signature=\"", b"cnonce=\""] {
        if let Some(at) = text.windows(name.len()).position(|window| window == name) {
            let start = from + at + name.len();
            let end = start + scan::run(bytes, start, 1024, is_credential_byte);
            if values::is_credential(&bytes[start..end]) {
                findings.push(start..end, HEADER, Rank::Shape);
            }
        }
    }
    from + line
}

/// `Cookie: a=b; c=d` and `Set-Cookie: a=b; Path=/`.
/// Returns how far it has read.
fn cookies(bytes: &[u8], at: usize, findings: &mut Findings<'_, '_>) -> Option<usize> {
    if !has_word(bytes, at, b"cookie") {
        return None;
    }
    let mut start = at + b"cookie".len();
    start += scan::run(bytes, start, 8, |byte| matches!(byte, b'"' | b'\'' | b'\\'));
    if bytes.get(start) != Some(&b':') {
        return None;
    }
    start += 1 + scan::run(bytes, start + 1, 8, |byte| matches!(byte, b' ' | b'"' | b'\'' | b'\\'));
    let len = scan::run(bytes, start, MAX_COOKIES, |byte| !matches!(byte, b'\n' | b'"' | b'\'' | b'\\' | b'<'));
    let mut from = start;
    for pair in bytes[start..start + len].split(|byte| *byte == b';') {
        let end = from + pair.len();
        if let Some(equals) = pair.iter().position(|byte| *byte == b'=') {
            let name = pair[..equals].trim_ascii().to_ascii_lowercase();
            let value_start = from + equals + 1;
            let value = bytes[value_start..end].trim_ascii_end();
            if !ATTRIBUTES.contains(&name.as_slice()) && is_cookie(&name, value) {
                findings.push(value_start..value_start + value.len(), COOKIE, Rank::Shape);
            }
        }
        from = end + 1;
    }
    Some(start + len)
}

fn is_cookie(name: &[u8], value: &[u8]) -> bool {
    let names_session =
        [&b"sess"[..], b"auth", b"token", b"sid", b"jwt", b"csrf", b"xsrf", b"login", b"remember", b"id"];
    let is_session = names_session.iter().any(|part| name.windows(part.len()).any(|window| window == *part));
    let traits = Traits::of(value);
    let is_random = traits.has_digit && traits.has_letter() && value.len() >= 12 && surprise(value) > 0.0;
    values::is_credential(value) && (is_session && (traits.has_digit || surprise(value) > 0.0) || is_random)
}
