//! Capture, cut and counts.

use super::support::{SMALL, assert_sealed, capture, leak, redactor, sample};
use crate::output::{Collector, Limits, Redactor};

const KINDS: &[&str] =
    &["openai", "github_token", "aws_access_key", "jwt", "slack_token", "telegram_bot", "discord_bot"];

#[test]
fn s1_key_over_cuts_at_every_offset() {
    // Failing: a piece of a key stands before or after the notice, because the cut came before the match.
    let redactor = redactor();
    for (seed, kind) in KINDS.iter().enumerate() {
        let key = sample(kind, seed as u64);
        for total in [SMALL.shown() + 1, SMALL.shown() + 40, 900, 2000] {
            if key.len() > total {
                continue;
            }
            for offset in 0..=total - key.len() {
                let mut text = ".".repeat(total);
                text.replace_range(offset..offset + key.len(), &key);
                if offset > 0 {
                    text.replace_range(offset - 1..offset, " ");
                }
                if offset + key.len() < total {
                    text.replace_range(offset + key.len()..offset + key.len() + 1, " ");
                }
                let captured = capture(text.as_bytes(), SMALL, &redactor);
                assert_sealed(captured.text.as_str(), &key);
                assert_eq!(captured.kept + captured.omitted, total as u64);
            }
        }
    }
}

#[test]
fn s1_known_value_over_cuts_at_every_offset() {
    // Failing: a piece of a value that the host knows stands at a cut.
    let value = "correct horse/battery+staple&9";
    let redactor = Redactor::builder().known("X", value.into()).build().expect("builds");
    for offset in 0..600 {
        let text = format!("{}{value}{}", "x".repeat(offset), "y".repeat(600 - offset));
        assert_sealed(capture(text.as_bytes(), SMALL, &redactor).text.as_str(), value);
    }
}

#[test]
fn s1_key_stuffed_with_escapes_over_cuts() {
    // Failing: escapes inside a key make it longer than the margin, and its end is shown as plain text.
    let redactor = redactor();
    let key = sample("github_token", 4);
    for stuffing in ["\x1b[0m", "\x1b]8;;http://example.com/a/long/link\x1b\\", "\u{200b}"] {
        let stuffed: String = key.chars().map(|char| format!("{char}{stuffing}")).collect();
        for offset in (0..600).step_by(7) {
            let text = format!("{} {stuffed} {}", ".".repeat(offset), ".".repeat(2000));
            assert_sealed(capture(text.as_bytes(), SMALL, &redactor).text.as_str(), &key);
        }
    }
}

#[test]
fn s1_known_value_stuffed_with_escapes_over_cuts() {
    // Failing: the beginning of a value that goes on beyond the captured head is shown.
    let value = "zq9-Torn+widget/41-and-more";
    let redactor = Redactor::builder().known("X", value.into()).build().expect("builds");
    for width in [3, 20, 60] {
        let stuffed: String = value.chars().map(|char| format!("{char}{}", "\x1b[0m".repeat(width))).collect();
        for offset in (0..300).step_by(13) {
            let text = format!("{} {stuffed} {}", ".".repeat(offset), ".".repeat(3000));
            assert_sealed(capture(text.as_bytes(), SMALL, &redactor).text.as_str(), value);
        }
    }
}

#[test]
fn s1_private_key_over_cuts() {
    // Failing: lines of a key whose header or end fell into the omitted range are shown.
    let redactor = redactor();
    let lines: Vec<String> = (0..12).map(|seed| sample("github_token", seed)[4..36].to_owned()).collect();
    let block = format!("-----BEGIN RSA PRIVATE KEY-----\n{}\n-----END RSA PRIVATE KEY-----\n", lines.join("\n"));
    let limits = Limits { head: 200, tail: 300, margin: 1024 };
    for offset in (0..3000).step_by(11) {
        let text = format!("{}\n{block}{}", ".".repeat(offset), ".".repeat(3000 - offset));
        let captured = capture(text.as_bytes(), limits, &redactor);
        for line in &lines {
            assert_sealed(captured.text.as_str(), line);
        }
    }
}

#[test]
fn s2_key_over_two_writes() {
    // Failing: each half of a key is shown, because each write was matched alone.
    let redactor = redactor();
    let key = sample("stripe", 1);
    for split in 0..key.len() {
        let mut collector = Collector::new(Limits::STDOUT);
        collector.push(format!("begin {}", &key[..split]).as_bytes());
        collector.push(format!("{} end", &key[split..]).as_bytes());
        assert_eq!(collector.finish(&redactor).text, "begin [REDACTED:stripe] end");
    }
}

#[test]
fn r11_flood_is_counted_exactly() {
    // Failing: memory grows with the flood, or the counts are those of the shown text.
    let redactor = redactor();
    let mut collector = Collector::new(Limits::STDOUT);
    let chunk = vec![b'x'; 1 << 20];
    for _ in 0..300 {
        collector.push(&chunk);
    }
    let captured = collector.finish(&redactor);
    let total = 300 << 20;
    assert_eq!((captured.total, captured.kept, captured.omitted), (total, 50_000, total - 50_000));
    let notice = "\n\n... [OUTPUT TRUNCATED - 314,522,800 chars omitted out of 314,572,800 total] ...\n\n";
    assert_eq!(captured.text.as_str(), format!("{}{notice}{}", "x".repeat(20_000), "x".repeat(30_000)));
}

#[test]
fn r12_standard_error_has_its_own_cap() {
    // Failing: a notice or a tail in the text of standard error.
    let captured = capture(&vec![b'e'; 25_000], Limits::STDERR, &redactor());
    assert_eq!(captured.text.as_str(), "e".repeat(10_000));
    assert_eq!((captured.kept, captured.omitted, captured.truncated), (10_000, 15_000, true));
}

#[test]
fn r14_odd_bytes_add_up() {
    // Failing: a panic, or kept + omitted differs from the total, for bytes that are no text.
    let redactor = redactor();
    let mixed: Vec<u8> = (0..4000_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 13).to_le_bytes()[0]).collect();
    for unit in
        [&b"\r"[..], b"\0", b"\xff", b"\xf0\x9f\x98\x80", b"\xf0\x9f", b"\xe2\x82", b"\x1b", b"\xc2\x9b", &mixed]
    {
        for len in [0, 1, 59, 60, 61, 62, 63, 64, 139, 140, 141, 142, 143, 700, 3000] {
            let bytes: Vec<u8> = unit.iter().copied().cycle().take(len).collect();
            let captured = capture(&bytes, SMALL, &redactor);
            assert_eq!(captured.total, len as u64);
            assert_eq!(captured.kept + captured.omitted, captured.total);
            assert_eq!(captured.kept, captured.total.min(140));
            assert_eq!(captured.truncated, captured.omitted > 0);
        }
    }
}

#[test]
fn r14_character_over_a_cut_stays_whole() {
    // Failing: U+FFFD at a cut, where the script wrote a whole character.
    let redactor = redactor();
    for shift in 0..8 {
        for total in [141, 142, 143, 144, 145, 900, 2000] {
            let text: String = "a".repeat(shift) + &"😀".repeat(total / 4 + 1);
            let captured = capture(&text.as_bytes()[..text.floor_char_boundary(total)], SMALL, &redactor);
            assert!(!captured.text.as_str().contains('\u{fffd}'), "shift {shift}, total {total}");
        }
    }
}

#[test]
fn s19_one_long_line() {
    // Failing: time or memory grows faster than the line.
    let mut collector = Collector::new(Limits::STDOUT);
    let key = sample("npm", 1);
    for _ in 0..1600 {
        collector.push(&[b'='; 1 << 16]);
    }
    collector.push(format!(" {key} ").as_bytes());
    let captured = collector.finish(&redactor());
    assert!(captured.text.as_str().ends_with("= [REDACTED:npm] "));
}

#[test]
fn exactly_the_limit_is_not_cut() {
    let captured = capture(&[b'a'; 140], SMALL, &redactor());
    assert_eq!(captured.text.as_str(), "a".repeat(140));
    assert!(!captured.truncated);
    let captured = capture(&[b'a'; 141], SMALL, &redactor());
    let notice = "\n\n... [OUTPUT TRUNCATED - 1 chars omitted out of 141 total] ...\n\n";
    assert_eq!(captured.text.as_str(), format!("{}{notice}{}", "a".repeat(60), "a".repeat(80)));
}

#[test]
fn no_margin_is_no_reason_to_drop_text() {
    // Found by fuzzing: the word at the beginning of the tail was dropped.
    let captured = capture(b"abcdefgh", Limits { head: 0, tail: 2, margin: 0 }, &redactor());
    assert!(captured.text.as_str().ends_with("] ...\n\ngh"), "{}", captured.text);
}

#[test]
fn raw_offsets_decide_even_where_escapes_were() {
    let mut text = "\x1b[31m".repeat(20);
    text.push_str(&"a".repeat(40));
    text.push_str(&"b".repeat(100));
    let captured = capture(text.as_bytes(), SMALL, &redactor());
    // The first 60 bytes are escapes only.
    let notice = "\n\n... [OUTPUT TRUNCATED - 100 chars omitted out of 240 total] ...\n\n";
    assert_eq!(captured.text.as_str(), format!("{notice}{}", "b".repeat(80)));
}

#[test]
fn mask_over_both_cuts_is_shown_once() {
    let redactor = redactor();
    let key = sample("github_pat", 3);
    let text = format!("{} {key} {}", ".".repeat(40), ".".repeat(110 - key.len() + 20));
    let limits = Limits { head: 60, tail: text.len() - 61, margin: 256 };
    let captured = capture(text.as_bytes(), limits, &redactor);
    assert_eq!(captured.text.as_str().matches("[REDACTED:").count(), 1);
    assert!(leak(captured.text.as_str(), &key).is_none());
}

#[test]
fn s9_key_in_a_preview_at_every_offset() {
    // Failing: a preview is cut first and redacted then, so that a key's beginning stays.
    let redactor = redactor();
    let key = sample("slack_token", 5);
    for offset in 0..120 {
        let text = format!("{} {key} tail", "w ".repeat(offset / 2));
        for width in [0, 1, 10, 80] {
            let preview = redactor.preview(&text, width);
            assert_sealed(preview.as_str(), &key);
            assert!(preview.as_str().chars().count() <= width);
            let open = preview.as_str().matches("[REDACTED").count();
            assert_eq!(open, preview.as_str().matches("[REDACTED:slack_token]").count(), "cut inside a mask");
        }
    }
}

#[test]
fn preview_of_a_long_text_ends_in_an_ellipsis() {
    let redactor = redactor();
    assert_eq!(redactor.preview("short", 80), "short");
    let long = "word ".repeat(100_000);
    let preview = redactor.preview(&long, 80);
    assert_eq!(preview.as_str(), format!("{}…", &long[..79]));
}

#[test]
fn ratio_splits_the_limit() {
    let limits = Limits::with_ratio(1000, 0.4);
    assert_eq!((limits.head, limits.tail), (400, 600));
    assert_eq!(Limits::with_ratio(1000, f64::NAN).shown(), 1000);
    assert_eq!(Limits::with_ratio(1000, 7.0).tail, 0);
}
