//! Schemas that need not be tried to know that they can be used.

use serde_json::Value;

/// Schemas within schemas. What is deeper is tried at once, and not on a guest's stack when it first calls.
const MAX_DEPTH: usize = 32;
const TYPES: &[&str] = &["null", "boolean", "object", "array", "number", "integer", "string"];

/// Whether a schema is made of the common keywords alone, each with a value that it may have. Such a schema can always be compiled, so that it need not
/// be when a sandbox is built: the compiler first makes the schema of schemas, which alone takes longer than a start.
pub(super) fn is_plain(schema: &Value) -> bool {
    is_plain_within(schema, MAX_DEPTH)
}

fn is_plain_within(schema: &Value, depth: usize) -> bool {
    match (schema, depth.checked_sub(1)) {
        (Value::Bool(_), _) => true,
        (Value::Object(keywords), Some(depth)) => keywords.iter().all(|(keyword, value)| fits(keyword, value, depth)),
        _ => false,
    }
}

fn fits(keyword: &str, value: &Value, depth: usize) -> bool {
    let is_plain = |schema| is_plain_within(schema, depth);
    match keyword {
        "title" | "description" | "$comment" | "format" => value.is_string(),
        "default" | "const" => true,
        "examples" | "enum" => value.is_array(),
        "type" => match value {
            Value::Array(names) => !names.is_empty() && names.iter().all(is_type) && are_distinct(names),
            name => is_type(name),
        },
        "properties" => value.as_object().is_some_and(|all| all.values().all(is_plain)),
        "required" => value.as_array().is_some_and(|names| names.iter().all(Value::is_string) && are_distinct(names)),
        "additionalProperties" | "items" | "not" => is_plain(value),
        "anyOf" | "oneOf" | "allOf" => value.as_array().is_some_and(|all| !all.is_empty() && all.iter().all(is_plain)),
        "minimum" | "maximum" => value.is_number(),
        "minLength" | "maxLength" | "minItems" | "maxItems" => value.is_u64(),
        _ => false,
    }
}

fn is_type(name: &Value) -> bool {
    name.as_str().is_some_and(|name| TYPES.contains(&name))
}

fn are_distinct(values: &[Value]) -> bool {
    values.iter().enumerate().all(|(index, value)| !values[..index].contains(value))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    /// Values that a keyword may have, and others.
    fn schemas() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            any::<bool>().prop_map(Value::from),
            Just(json!({})),
            Just(json!([])),
            (-3i64..3).prop_map(Value::from),
            Just(json!(1.5)),
            prop::sample::select(&["string", "null", "object", "x", "", "^a("][..]).prop_map(Value::from),
        ];
        let keywords = [
            "title",
            "description",
            "$comment",
            "default",
            "const",
            "examples",
            "enum",
            "type",
            "properties",
            "required",
            "additionalProperties",
            "items",
            "not",
            "anyOf",
            "oneOf",
            "allOf",
            "minimum",
            "maximum",
            "minLength",
            "maxLength",
            "minItems",
            "maxItems",
            "pattern",
            "format",
            "$ref",
            "$schema",
            "prefixItems",
        ];
        leaf.prop_recursive(4, 24, 4, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
                prop::collection::hash_map(prop::sample::select(keywords.to_vec()), inner, 0..4)
                    .prop_map(|all| all.into_iter().map(|(keyword, value)| (keyword.to_owned(), value)).collect()),
            ]
        })
    }

    proptest! {
        #[test]
        fn what_is_plain_compiles(schema in schemas()) {
            if is_plain(&schema) {
                prop_assert!(jsonschema::validator_for(&schema).is_ok(), "{schema}");
            }
        }
    }

    /// Those of the usual tools, derived from types.
    #[test]
    fn what_is_derived_is_plain() {
        #[derive(schemars::JsonSchema)]
        #[serde(deny_unknown_fields)]
        #[expect(dead_code, reason = "only its schema is used")]
        struct Args {
            /// Text.
            path: String,
            #[serde(default)]
            limit: Option<u64>,
            #[serde(default)]
            mode: Mode,
            lines: Vec<i32>,
        }
        #[derive(Default, schemars::JsonSchema)]
        #[serde(rename_all = "snake_case")]
        #[expect(dead_code, reason = "only its schema is used")]
        enum Mode {
            #[default]
            One,
            /// With a text of its own.
            Other,
        }
        let schema = crate::tool::ToolSpec::new::<Args>("a", "A tool.").schema;
        assert!(is_plain(&schema), "{schema}");
    }

    #[test]
    fn what_needs_the_compiler_is_not_plain() {
        let schemas = [
            json!({"type": "text"}),
            json!({"type": ["string", "string"]}),
            json!({"type": []}),
            json!({"properties": {"a": {"pattern": "("}}}),
            json!({"properties": {"a": 1}}),
            json!({"required": ["a", "a"]}),
            json!({"required": "a"}),
            json!({"$ref": "#/$defs/a"}),
            json!({"$schema": "https://example.org/"}),
            json!({"minimum": "1"}),
            json!({"minLength": -1}),
            json!({"anyOf": []}),
            json!({"items": [{}]}),
            json!("object"),
        ];
        for schema in schemas {
            assert!(!is_plain(&schema), "{schema}");
        }
        let nested = |depth| (0..depth).fold(json!({}), |inner, _| json!({"items": inner}));
        assert!(is_plain(&nested(MAX_DEPTH - 1)) && !is_plain(&nested(MAX_DEPTH)));
    }
}
