//! Properties over random secrets, splits, interleavings and offsets.

use proptest::prelude::*;

use super::support::{assert_sealed, leak, redactor};
use crate::output::{Collector, FAMILIES, Family, Limits, Redactor, Sampler, Streamer, strip};

fn any_secret() -> impl Strategy<Value = (&'static Family, String)> {
    (0..FAMILIES.len(), any::<u64>())
        .prop_map(|(index, seed)| (&FAMILIES[index], Sampler::new(seed).token(&FAMILIES[index])))
        .prop_filter("on by default", |(family, _)| family.is_default)
        // Where a row asks for a random look, one sample in a few hundred does not have it.
        .prop_filter("masked on its own", |(_, secret)| leak(shared().clean(secret).as_str(), secret).is_none())
}

fn shared() -> &'static Redactor {
    static SHARED: std::sync::LazyLock<Redactor> = std::sync::LazyLock::new(redactor);
    &SHARED
}

const STUFFING: &[&str] = &[
    "\x1b[31m",
    "\x1b[0m",
    "\u{200b}",
    "\u{ad}",
    "\0",
    "\u{301}",
    "\x1b]0;t\x07",
    "\u{9b}1m",
    "\u{feff}",
    "\x1b(B",
    "\r",
];

/// The secret with something invisible put in at some places.
fn stuffed(secret: &str, places: &[(usize, usize)]) -> String {
    let mut text: Vec<String> = secret.chars().map(String::from).collect();
    for (place, kind) in places {
        let place = place % text.len();
        text[place].push_str(STUFFING[kind % STUFFING.len()]);
    }
    text.concat()
}

fn split_at(bytes: &[u8], places: &[usize]) -> Vec<Vec<u8>> {
    let mut places: Vec<usize> = places.iter().map(|place| place % (bytes.len() + 1)).collect();
    places.sort_unstable();
    let mut pieces = Vec::new();
    let mut from = 0;
    for place in places {
        pieces.push(bytes[from..place].to_vec());
        from = place;
    }
    pieces.push(bytes[from..].to_vec());
    pieces
}

/// Ordinary output of some length.
fn filler(len: usize) -> String {
    "some words of output, 12 of them\n".chars().cycle().take(len).collect()
}

proptest! {
    #[test]
    fn no_piece_of_a_secret_in_any_sink(
        (_, secret) in any_secret(),
        places in prop::collection::vec((any::<usize>(), any::<usize>()), 0..12),
        splits in prop::collection::vec(any::<usize>(), 0..6),
        before in 0_usize..1200,
        after in 0_usize..1200,
        small in any::<bool>(),
    ) {
        let text = format!("{} {} {}", filler(before), stuffed(&secret, &places), filler(after));
        let limits = if small { Limits { head: 400, tail: 500, margin: 24 * 1024 } } else { Limits::STDOUT };
        let mut collector = Collector::new(limits);
        for piece in split_at(text.as_bytes(), &splits) {
            collector.push(&piece);
        }
        let captured = collector.finish(shared());
        assert_sealed(captured.text.as_str(), &secret);
        prop_assert_eq!(captured.kept + captured.omitted, text.len() as u64);
        assert_sealed(shared().preview(&text, 80).as_str(), &secret);
        assert_sealed(shared().clean(&text).as_str(), &secret);
    }

    #[test]
    fn no_piece_of_a_secret_in_a_stream(
        (_, secret) in any_secret(),
        places in prop::collection::vec((any::<usize>(), any::<usize>()), 0..6),
        splits in prop::collection::vec((any::<usize>(), any::<bool>()), 0..8),
        before in 0_usize..200,
    ) {
        let text = format!("{} {}\n{}", filler(before), stuffed(&secret, &places), filler(60));
        let pieces = split_at(text.as_bytes(), &splits.iter().map(|split| split.0).collect::<Vec<_>>());
        let mut streamer = Streamer::new(shared().clone());
        let mut shown = String::new();
        for (at, piece) in pieces.iter().enumerate() {
            shown.push_str(streamer.push(piece).as_str());
            if splits.get(at).is_some_and(|split| split.1) {
                shown.push_str(streamer.tick().as_str());
            }
        }
        shown.push_str(streamer.finish().as_str());
        assert_sealed(&shown, &secret);
    }

    #[test]
    fn redacting_is_idempotent(text in text_with_secrets(SCRAPS)) {
        let once = shared().clean(&text);
        let twice = shared().clean(once.as_str());
        prop_assert_eq!(&twice, &once);
    }

    #[test]
    fn counts_add_up_for_any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..2000), head in 0_usize..300, tail in 0_usize..300, margin in 0_usize..300) {
        let mut collector = Collector::new(Limits { head, tail, margin });
        collector.push(&bytes);
        let captured = collector.finish(shared());
        prop_assert_eq!(captured.total, bytes.len() as u64);
        prop_assert_eq!(captured.kept + captured.omitted, captured.total);
    }

    #[test]
    fn text_without_escapes_and_secrets_is_unchanged(words in prop::collection::vec("[a-z]{1,9}|[0-9]{1,4}|[ \t\r\n,.!?()]{1,3}|[αβγдж漢字é😀]{1,3}", 0..80)) {
        let text = words.concat();
        let clean = shared().clean(&text);
        prop_assert_eq!(clean.as_str(), text.as_str());
        let mut collector = Collector::new(Limits::STDOUT);
        collector.push(text.as_bytes());
        let captured = collector.finish(shared());
        prop_assert_eq!(captured.text.as_str(), text.as_str());
    }

    #[test]
    fn stripping_leaves_no_control(text in "(?s).{0,60}|[\\x1b\\x9b\\x9d\\[\\]PX^_0-9;m\\x07\\\\a\n]{0,40}") {
        let stripped = strip(&text);
        let is_control = |char: char| char == '\x1b' || ('\u{80}'..='\u{9f}').contains(&char);
        prop_assert!(!stripped.contains(is_control));
        prop_assert_eq!(strip(&stripped), stripped.clone());
        prop_assert_eq!(text.matches('\n').count(), stripped.matches('\n').count());
    }

    #[test]
    fn streams_agree_with_the_whole(text in text_with_secrets(&SCRAPS[..SCRAPS.len() - 3]), splits in prop::collection::vec((any::<usize>(), any::<bool>()), 0..10)) {
        let pieces = split_at(text.as_bytes(), &splits.iter().map(|split| split.0).collect::<Vec<_>>());
        let mut streamer = Streamer::new(shared().clone());
        let mut shown = String::new();
        for (at, piece) in pieces.iter().enumerate() {
            shown.push_str(streamer.push(piece).as_str());
            if splits.get(at).is_some_and(|split| split.1) {
                shown.push_str(streamer.tick().as_str());
            }
        }
        shown.push_str(streamer.finish().as_str());
        prop_assert_eq!(shown, shared().clean(&text).into_string());
    }
}

const SCRAPS: &[&str] = &[
    "api_key=",
    "password: ",
    "\"token\": \"",
    "\"",
    "'",
    " ",
    "Bearer ",
    "Authorization: ",
    "Cookie: a=",
    "; ",
    "https://",
    "user:hunter22@",
    "host/",
    "[REDACTED:openai]",
    "[REDACTED:",
    "]",
    "\\n",
    "%22",
    "word",
    "é",
    ",",
    "&",
    "=",
    "DB_PASSWORD=hunter2",
    "***",
    "abcdef...wxyz",
    "\x1b[1m",
    "x",
    "('A_KEY', 'swordfish9')",
    "AKIA",
    "sk-",
    "_",
    "-",
    "-----END PRIVATE KEY-----",
    // A stream masks a key block before it is known whether the block holds a key, and what it shows at the end of a line
    // may turn out to be the beginning of a key that goes on in the next.
    "-----BEGIN PRIVATE KEY-----\n",
    "-----BEGIN ",
    "\n",
];

/// Text in which secrets, names, separators, masks and escapes follow one another in any order.
fn text_with_secrets(scraps: &'static [&'static str]) -> impl Strategy<Value = String> {
    let secret = any_secret().prop_map(|(_, secret)| secret);
    let scrap = prop::sample::select(scraps.to_vec()).prop_map(String::from);
    prop::collection::vec(prop_oneof![2 => scrap, 1 => secret], 0..12).prop_map(|parts| parts.concat())
}
