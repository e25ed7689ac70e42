//! Stripping any text leaves nothing that a terminal obeys, keeps every newline, and changes nothing the second time.
#![no_main]

use gloveport::output::strip;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let text = String::from_utf8_lossy(data);
    let stripped = strip(&text);
    assert!(!stripped.contains(|char: char| char == '\x1b' || ('\u{80}'..='\u{9f}').contains(&char)));
    assert_eq!(strip(&stripped), stripped);
    assert_eq!(text.matches('\n').count(), stripped.matches('\n').count());
});
