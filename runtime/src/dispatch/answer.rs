//! Encodes answers and bounds them.

use bytes::Bytes;
use serde_json::{Value, json};

/// Ends a text of an answer that was cut to fit.
const CUT_MARK: &str = "... [truncated by the host: the answer was over its size limit]";

/// The answer to a call that was refused or failed.
pub(super) fn refusal(text: &str) -> Bytes {
    Bytes::from(json!({ "error": text }).to_string())
}

/// An answer as JSON of at most `cap` bytes. A larger one has its longest texts cut and marked; one that has no long text is replaced by an error.
pub(super) fn encode(mut value: Value, cap: usize) -> Bytes {
    let mut encoded = value.to_string();
    let size = encoded.len();
    // Each round cuts the longest text by at least the surplus, so a handful of rounds is enough for any realistic answer.
    for _ in 0..16 {
        if encoded.len() <= cap {
            return Bytes::from(encoded);
        }
        let surplus = encoded.len() - cap;
        if !cut_longest_text(&mut value, surplus) {
            break;
        }
        encoded = value.to_string();
    }
    if encoded.len() <= cap {
        return Bytes::from(encoded);
    }
    refusal(&format!("The tool's answer of {size} bytes is over the limit of {cap} bytes."))
}

fn cut_longest_text(value: &mut Value, surplus: usize) -> bool {
    let Some(text) = longest_text(value) else { return false };
    let spare = text.len().saturating_sub(CUT_MARK.len());
    if spare == 0 || text.ends_with(CUT_MARK) && spare < surplus {
        return false;
    }
    let mut keep = spare.saturating_sub(surplus);
    while !text.is_char_boundary(keep) {
        keep -= 1;
    }
    text.truncate(keep);
    text.push_str(CUT_MARK);
    true
}

fn longest_text(value: &mut Value) -> Option<&mut String> {
    match value {
        Value::String(text) => Some(text),
        Value::Array(items) => items.iter_mut().filter_map(longest_text).max_by_key(|text| text.len()),
        Value::Object(map) => map.values_mut().filter_map(longest_text).max_by_key(|text| text.len()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_within_the_cap_are_unchanged() {
        let value = json!({"content": "é\u{2028}", "n": 9_007_199_254_740_993_u64});
        assert_eq!(encode(value.clone(), 1_000), Bytes::from(value.to_string()));
    }

    #[test]
    fn a_long_text_is_cut_and_marked() {
        let cut = encode(json!({"path": "a", "content": "é".repeat(5_000)}), 1_000);
        let value: Value = serde_json::from_slice(&cut).unwrap();
        assert!(cut.len() <= 1_000 && cut.len() > 900);
        assert_eq!(value["path"], "a");
        assert!(value["content"].as_str().unwrap().ends_with(CUT_MARK));
    }

    #[test]
    fn escapes_count_with_their_encoded_size() {
        let cut = encode(json!({"content": "\u{1}".repeat(5_000)}), 1_000);
        assert!(cut.len() <= 1_000);
        serde_json::from_slice::<Value>(&cut).unwrap();
    }

    #[test]
    fn an_answer_without_long_text_becomes_an_error() {
        let cut = encode(json!((0..10_000).collect::<Vec<_>>()), 1_000);
        let value: Value = serde_json::from_slice(&cut).unwrap();
        assert_eq!(value["error"], "The tool's answer of 48891 bytes is over the limit of 1000 bytes.");
    }
}
