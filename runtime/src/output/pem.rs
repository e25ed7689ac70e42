//! Private key blocks: PEM (RFC 7468), OpenSSH, PGP, PuTTY.
//!
//! A block may be indented, have its line breaks written out as `\n`, or be cut off. A header without an end masks to
//! the end of the text; an end whose header lies before the text masks the key lines before it.

use super::mask::Rank;
use super::redactor::Findings;
use super::scan;
use super::view::{Edges, View};

/// The name under which key blocks are masked.
pub(super) const FAMILY: &str = "private_key";
const BEGIN: &[u8] = b"-----BEGIN ";
const END: &[u8] = b"-----END ";
/// Longest label between `BEGIN` and the dashes.
const MAX_LABEL: usize = 64;
/// Longest block: a key of 16,384 bits has 12 KiB.
pub(super) const MAX_BLOCK: usize = 16 * 1024;

/// Reports every private key block.
pub(super) fn find(view: &View<'_>, edges: Edges, findings: &mut Findings<'_, '_>) {
    let bytes = view.bytes();
    let mut at = 0;
    while let Some(offset) = find_bytes(&bytes[at..], b"-----") {
        let start = at + offset;
        at = start + 5;
        let rest = &bytes[start..];
        if let Some(header) = rest.strip_prefix(BEGIN).and_then(private_label).map(|len| start + BEGIN.len() + len) {
            if let Some(end) = block_end(bytes, header) {
                findings.push(start..end, FAMILY, Rank::Shape);
                at = end;
            }
        } else if edges.start_is_open
            && let Some(len) = rest.strip_prefix(END).and_then(private_label)
        {
            let begin = key_lines_before(bytes, start);
            findings.push(begin..start + END.len() + len, FAMILY, Rank::Shape);
        }
    }
    putty(bytes, findings);
}

/// Whether a mask of this name stands for a key block.
pub(super) fn is_block(label: &str) -> bool {
    label == FAMILY
}

/// Where a header begins whose block may go on after the text, or a text that may become such a header.
pub(super) fn unresolved(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut from = text.len().saturating_sub(MAX_BLOCK + MAX_LABEL);
    while let Some(offset) = find_bytes(&bytes[from..], b"-----B") {
        let start = from + offset;
        let rest = &bytes[start..];
        let is_header = match rest.strip_prefix(BEGIN) {
            None => BEGIN.starts_with(rest),
            Some(label) => match private_label(label) {
                Some(len) => block_end(bytes, start + BEGIN.len() + len).is_none(),
                None => label.len() < MAX_LABEL && !label.contains(&b'\n'),
            },
        };
        if is_header {
            return Some(start);
        }
        from = start + 6;
    }
    None
}

fn find_bytes(bytes: &[u8], needle: &[u8]) -> Option<usize> {
    bytes.windows(needle.len()).position(|window| window == needle)
}

/// Length of `… PRIVATE KEY …-----` at the start of `rest`.
fn private_label(rest: &[u8]) -> Option<usize> {
    let len = scan::run(rest, 0, MAX_LABEL, |byte| {
        byte.is_ascii_uppercase() || byte.is_ascii_digit() || matches!(byte, b' ' | b'_')
    });
    let label = &rest[..len];
    let is_private = find_bytes(label, b"PRIVATE KEY").is_some() && rest[len..].starts_with(b"-----");
    is_private.then_some(len + 5)
}

/// Where the block whose header ends at `from` ends; `None` if no key follows at all.
fn block_end(bytes: &[u8], from: usize) -> Option<usize> {
    let mut search = from;
    let limit = bytes.len().min(from + MAX_BLOCK);
    while let Some(offset) = find_bytes(&bytes[search..limit], b"-----") {
        let dashes = search + offset;
        let rest = &bytes[dashes..];
        if let Some(len) = rest.strip_prefix(END).and_then(private_label) {
            let body = &bytes[from..dashes];
            return has_key(body).then_some(dashes + END.len() + len);
        }
        if rest.starts_with(BEGIN) {
            break;
        }
        search = dashes + 5;
    }
    opens_block(&bytes[from..]).then_some(bytes.len())
}

/// Whether there is anything between header and end that a key could be: not just quotes, commas and prose.
fn has_key(body: &[u8]) -> bool {
    let mut run = 0;
    body.iter().any(|byte| {
        run = if byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=') { run + 1 } else { 0 };
        run >= 12
    })
}

/// Whether what follows a header is a line break, real or written out, or nothing.
fn opens_block(rest: &[u8]) -> bool {
    let blanks = scan::run(rest, 0, 64, |byte| matches!(byte, b' ' | b'\t'));
    let rest = &rest[blanks..];
    let slashes = scan::run(rest, 0, 8, |byte| byte == b'\\');
    match rest.get(slashes) {
        None => true,
        Some(b'n' | b'r') => slashes > 0,
        Some(byte) => *byte == b'\n' && slashes == 0,
    }
}

/// Start of the lines of base64 that end at `end`.
fn key_lines_before(bytes: &[u8], end: usize) -> usize {
    end - scan::run_back(bytes, end, MAX_BLOCK, |byte| {
        byte.is_ascii_alphanumeric()
            || matches!(byte, b'+' | b'/' | b'=' | b'\n' | b'\\' | b'"' | b'\'')
            || matches!(byte, b'\t' | b' ')
    })
}

/// The private lines of a PuTTY key file, which follow a line that counts them.
fn putty(bytes: &[u8], findings: &mut Findings<'_, '_>) {
    const LINES: &[u8] = b"Private-Lines: ";
    let mut at = 0;
    while let Some(offset) = find_bytes(&bytes[at..], LINES) {
        let digits = at + offset + LINES.len();
        let start = digits + scan::run(bytes, digits, 6, |byte| byte.is_ascii_digit());
        let len = scan::run(bytes, start, MAX_BLOCK, |byte| {
            byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=' | b'\n' | b'\\')
        });
        if has_key(&bytes[start..start + len]) {
            findings.push(start..start + len, FAMILY, Rank::Shape);
        }
        at = digits;
    }
}
