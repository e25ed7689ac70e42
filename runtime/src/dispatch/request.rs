//! Decodes tool requests. Every byte comes from a script that may be hostile.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// A request that has the right shape.
#[derive(Debug, PartialEq)]
pub(super) struct ToolRequest {
    pub(super) tool: String,
    pub(super) args: Map<String, Value>,
}

/// Decodes one request; the error text is what the script gets.
pub(super) fn decode(bytes: &[u8], cap: usize) -> Result<ToolRequest, String> {
    if bytes.len() > cap {
        return Err(format!("Tool request of {} bytes is over the limit of {cap} bytes.", bytes.len()));
    }
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let value = StrictValue
        .deserialize(&mut deserializer)
        .and_then(|value| deserializer.end().map(|()| value))
        .map_err(|error| format!("Broken tool request: {error}"))?;
    let Value::Object(mut fields) = value else {
        return Err("Broken tool request: it is not an object".into());
    };
    let Some(Value::String(tool)) = fields.shift_remove("tool") else {
        return Err("Broken tool request: field 'tool' is missing or not a string".into());
    };
    let args = match fields.shift_remove("args") {
        Some(Value::Object(args)) => args,
        Some(_) => return Err("Broken tool request: field 'args' is not an object".into()),
        None => return Err("Broken tool request: field 'args' is missing".into()),
    };
    match fields.keys().next() {
        Some(unknown) => Err(format!("Broken tool request: unknown field '{unknown}'")),
        None => Ok(ToolRequest { tool, args }),
    }
}

/// A JSON value whose objects have no key twice: `serde_json` alone keeps the last, and who checks the first is fooled.
struct StrictValue;

impl<'de> DeserializeSeed<'de> for StrictValue {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for StrictValue {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value).map(Value::Number).ok_or_else(|| E::custom("a number is not finite"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element_seed(StrictValue)? {
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(key) = access.next_key::<String>()? {
            let value = access.next_value_seed(StrictValue)?;
            if map.contains_key(&key) {
                return Err(A::Error::custom(format!("key '{key}' stands twice")));
            }
            map.insert(key, value);
        }
        Ok(Value::Object(map))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(text: &str) -> Result<ToolRequest, String> {
        decode(text.as_bytes(), 1_000)
    }

    #[test]
    fn a_good_request_decodes() {
        let Value::Object(args) = json!({"path": "a", "n": [1, -1, 1.5, null, {"x": true}]}) else { unreachable!() };
        let text = json!({"tool": "t", "args": args}).to_string();
        assert_eq!(check(&text), Ok(ToolRequest { tool: "t".into(), args }));
    }

    #[test]
    fn p6_requests_that_are_no_request_are_answered() {
        for (text, problem) in [
            ("", "EOF while parsing a value at line 1 column 0"),
            ("[]", "it is not an object"),
            ("5", "it is not an object"),
            ("null", "it is not an object"),
            ("{", "EOF while parsing an object at line 1 column 1"),
            ("{}{}", "trailing characters at line 1 column 3"),
            ("{}", "field 'tool' is missing or not a string"),
            (r#"{"tool":1,"args":{}}"#, "field 'tool' is missing or not a string"),
            (r#"{"tool":"t"}"#, "field 'args' is missing"),
            (r#"{"tool":"t","args":[]}"#, "field 'args' is not an object"),
            (r#"{"tool":"t","args":{},"x":1}"#, "unknown field 'x'"),
            ("\u{feff}{}", "expected value at line 1 column 1"),
            ("\u{0}", "expected value at line 1 column 1"),
        ] {
            assert_eq!(check(text), Err(format!("Broken tool request: {problem}")), "{text:?}");
        }
        assert!(decode(b"\xff\xfe{\0}\0", 1_000).is_err());
        assert!(decode(br#"{"tool":"\ud800","args":{}}"#, 1_000).is_err());
        assert!(decode(br#"{"tool":"t","args":{"a":NaN}}"#, 1_000).is_err());
    }

    #[test]
    fn r22_duplicate_keys_are_refused_at_every_depth() {
        for text in [
            r#"{"tool":"a","tool":"b","args":{}}"#,
            r#"{"tool":"a","args":{"p":1,"p":2}}"#,
            r#"{"tool":"a","args":{"p":[{"q":1,"\u0071":2}]}}"#,
        ] {
            assert!(check(text).unwrap_err().contains("stands twice"), "{text}");
        }
    }

    #[test]
    fn deep_nesting_and_size_are_bounded() {
        let deep = format!(r#"{{"tool":"t","args":{{"a":{}{}}}}}"#, "[".repeat(400), "]".repeat(400));
        assert!(check(&deep).unwrap_err().contains("recursion limit exceeded"));
        let long = "x".repeat(1_001);
        assert_eq!(check(&long), Err("Tool request of 1001 bytes is over the limit of 1000 bytes.".into()));
    }
}
