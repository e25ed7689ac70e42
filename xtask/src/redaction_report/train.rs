//! The table of character pairs: how surprising one character is after another in identifiers and words.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::Result;

use super::clean;

/// `a-z`, `A-Z`, a digit, anything else.
const SYMBOLS: usize = 54;
/// A text must be in so many files to count, which keeps keys and hashes out.
const MIN_FILES: u32 = 3;

/// Prints the table made from the given directories, as `runtime/src/output/bigrams.txt` holds it.
pub(super) fn run(dirs: &[String]) -> Result<()> {
    let mut files_with: BTreeMap<Vec<u8>, u32> = BTreeMap::new();
    for dir in dirs {
        for path in clean::files(Path::new(dir))? {
            let path_text = path.to_string_lossy();
            if path_text.contains("test") {
                continue;
            }
            let Ok(text) = fs::read(&path) else {
                continue;
            };
            let mut tokens: Vec<&[u8]> = text
                .split(|byte| !(byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-')))
                .filter(|token| (3..=64).contains(&token.len()))
                .collect();
            tokens.sort_unstable();
            tokens.dedup();
            for token in tokens {
                *files_with.entry(token.to_vec()).or_default() += 1;
            }
        }
    }
    files_with.retain(|_, files| *files >= MIN_FILES);
    print!("{}", table(&files_with));
    Ok(())
}

fn table(files_with: &BTreeMap<Vec<u8>, u32>) -> String {
    let mut counts = vec![[0.02_f64; SYMBOLS]; SYMBOLS];
    for (token, files) in files_with {
        let weight = f64::from(1 + files).log2();
        let mut previous = SYMBOLS - 1;
        for symbol in token.iter().map(|byte| symbol(*byte)).chain([SYMBOLS - 1]) {
            counts[previous][symbol] += weight;
            previous = symbol;
        }
    }
    let mut text = String::new();
    for row in counts {
        let total: f64 = row.iter().sum();
        for count in row {
            // A little of every pair, so that none costs too much.
            let part = (count + total * 0.0002) / (total * 1.0108);
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to 0 and 60")]
            let quarters = (-4.0 * part.log2()).round().clamp(0.0, 60.0) as u8;
            text.push(char::from(b'0' + quarters));
        }
        let _ = writeln!(text);
    }
    text
}

fn symbol(byte: u8) -> usize {
    match byte {
        b'a'..=b'z' => usize::from(byte - b'a'),
        b'A'..=b'Z' => usize::from(byte - b'A') + 26,
        b'0'..=b'9' => 52,
        _ => 53,
    }
}
