//! What a script sees of a command's output: text, without terminal control, the first and the last part of a long one. Pure.

use gloveport::output::strip;
use gloveport::workspace::CommandOutput;

use crate::text::grouped;

/// Bytes shown of the start.
const HEAD: usize = 20_000;
/// Bytes shown of the end.
const TAIL: usize = 30_000;

/// The text of the output.
pub(crate) fn render(done: &CommandOutput) -> String {
    let kept = (done.head.len() + done.tail.len()) as u64;
    if kept == done.total {
        let whole = text(&[&done.head[..], &done.tail[..]].concat());
        return cut(&whole, &whole, whole.len() as u64);
    }
    cut(&text(&done.head), &text(&done.tail), done.total)
}

fn text(bytes: &[u8]) -> String {
    strip(&String::from_utf8_lossy(bytes)).into_owned()
}

fn cut(head: &str, tail: &str, total: u64) -> String {
    if total <= (HEAD + TAIL) as u64 {
        return head.to_owned();
    }
    let head = &head[..head.floor_char_boundary(HEAD)];
    let tail = &tail[tail.ceil_char_boundary(tail.len().saturating_sub(TAIL))..];
    let omitted = total.saturating_sub((head.len() + tail.len()) as u64);
    format!(
        "{head}\n\n... [OUTPUT TRUNCATED - {} chars omitted out of {} total] ...\n\n{tail}",
        grouped(omitted),
        grouped(total)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(bytes: &[u8]) -> String {
        let head = bytes.len().min(40_000);
        let tail = bytes.len().saturating_sub(60_000).max(head);
        render(&CommandOutput {
            head: bytes[..head].to_vec().into(),
            tail: bytes[tail..].to_vec().into(),
            total: bytes.len() as u64,
            exit_code: Some(0),
        })
    }

    #[test]
    fn output_is_cut_forty_to_sixty() {
        assert_eq!(shown(b"\x1b[1mbold\x1b[0m\n"), "bold\n");
        let exactly = "x".repeat(50_000);
        assert_eq!(shown(exactly.as_bytes()), exactly);
        let over = format!("{}{}", "a".repeat(25_000), "b".repeat(35_000));
        let marker = "\n\n... [OUTPUT TRUNCATED - 10,000 chars omitted out of 60,000 total] ...\n\n";
        assert_eq!(shown(over.as_bytes()), format!("{}{marker}{}", "a".repeat(20_000), "b".repeat(30_000)));
        let huge = "é".repeat(500_000);
        assert!(shown(huge.as_bytes()).contains("[OUTPUT TRUNCATED - 950,000 chars omitted out of 1,000,000 total]"));
    }
}
