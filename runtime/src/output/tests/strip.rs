//! Terminal control.

use super::support::{assert_unchanged, redactor};
use crate::output::strip;

#[track_caller]
fn check(text: &str, expected: &str) {
    assert_eq!(strip(text), expected, "{text:?}");
    assert_eq!(strip(expected), expected, "stripping twice");
}

#[test]
fn sequences_are_removed() {
    check("\x1b[31mred\x1b[0m", "red");
    check("\x1b[38;5;196;1mred\x1b[m", "red");
    check("\x1b[38:2::10:20:30mred", "red");
    check("\x1b[?25lhidden\x1b[?25h", "hidden");
    check("\x1b[1 qcursor", "cursor");
    check("\x1b]0;title\x07text", "text");
    check("\x1b]8;;http://example.com\x1b\\link\x1b]8;;\x1b\\", "link");
    check("\x1b]0;title\u{9c}text", "text");
    check("\x1bPq#0;2;0;0;0\x1b\\text", "text");
    check("\x1bX sos \x1b\\\x1b^ pm \x1b\\\x1b_ apc \x1b\\text", "text");
    check("\x1b(Btext\x1b#8\x1b%G", "text");
    check("\x1bMtext\x1b7\x1b8\x1bc", "text");
}

#[test]
fn s6_eight_bit_controls_are_removed() {
    // Failing: something that a terminal obeys is left.
    check("\u{9b}31mred\u{9b}0m", "red");
    check("\u{9d}0;title\u{9c}text", "text");
    check("\u{90}q\u{9c}text\u{98}sos\u{9c}\u{9e}pm\u{9c}\u{9f}apc\u{9c}", "text");
    check("a\u{85}b\u{8d}c\u{80}d", "abcd");
    check("end\x1b", "end");
    check("\x1b\x1b\x1b[1mbold", "bold");
    check("half\x1b[38;5", "half");
    check("half\x1b[", "half");
    check("\x1b\u{9b}1mbold", "bold");
}

#[test]
fn s5_white_space_is_unchanged() {
    // Failing: tabs or carriage returns vanish, as in strip-ansi-escapes 0.2.1.
    let text = "a\tb\r\nc\x0cd\x0be\u{2028}f\u{2029}g\u{a0}h\r";
    check(text, text);
    assert_unchanged(&redactor(), text);
    check("\0\x07\x08 stay", "\0\x07\x08 stay");
}

#[test]
fn unfinished_strings_end_at_the_newline() {
    check("\x1b]0;title\nnext line\n", "\nnext line\n");
    check("\x1bPdata\r\nnext", "\r\nnext");
    check("\x1b_data\nnext", "\nnext");
    check("\x1b[31\nnext", "\nnext");
    check("\x1b\nnext", "\nnext");
    check("\x1b(\nnext", "\nnext");
}

#[test]
fn unfinished_strings_end_after_four_kib() {
    let text = format!("\x1b]0;{}tail", "x".repeat(5000));
    let stripped = strip(&text);
    assert!(stripped.ends_with("tail"));
    assert_eq!(stripped.len(), text.len() - 4096 - 2);
    let wide = format!("\x1b]{}tail", "é".repeat(3000));
    assert!(strip(&wide).ends_with("étail"));
}

#[test]
fn text_after_a_broken_sequence_survives() {
    check("\x1b[31é", "é");
    check("\x1bé", "é");
    check("\x1b\tx", "\tx");
    check("\x1b[3\x181m", "1m");
    check("\x1b]0;a\x1b[1mb", "b");
    check("\x1b[1\x08mx", "\x08x");
}

#[test]
fn nothing_to_strip_borrows() {
    assert!(matches!(strip("plain é text"), std::borrow::Cow::Borrowed(_)));
}
