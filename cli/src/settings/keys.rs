//! The known keys, taken from the configuration's own schema, and the nearest one to a key that is not known.

use serde_json::Value as Json;
use toml::{Table, Value};

/// Below this a name is no misspelling of another.
const LEAST_SIMILARITY: f64 = 0.6;

/// What a key holds, as far as it matters for reading it from text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    /// Text.
    Text,
    /// A list of texts.
    Texts,
    /// A number, a truth value, or something with structure.
    Other,
}

/// All known keys.
#[derive(Debug)]
pub(super) struct Keys {
    root: Json,
    leaves: Vec<(String, Shape)>,
}

impl Keys {
    pub(super) fn of_config() -> Self {
        let root = gloveport::Config::json_schema();
        let mut leaves = Vec::new();
        collect(&root, String::new(), &mut leaves);
        Self { root, leaves }
    }

    /// The keys that hold values, as dotted paths.
    pub(super) fn leaves(&self) -> &[(String, Shape)] {
        &self.leaves
    }

    /// The first key of a table that is not known, as a dotted path to a value.
    pub(super) fn unknown_in(&self, table: &Table) -> Option<String> {
        unknown(table, &self.root, "")
    }

    /// The known key that was most likely meant.
    pub(super) fn nearest(&self, key: &str) -> Option<String> {
        nearest(key, self.leaves.iter().map(|(path, _)| path.as_str()), '.')
    }
}

/// The candidate that is most like `name`. One with the same last part in another section counts as very near.
pub(super) fn nearest<'a>(name: &str, candidates: impl Iterator<Item = &'a str>, separator: char) -> Option<String> {
    let last = |path: &str| path.rsplit(separator).next().map(str::to_owned);
    let similarity = |candidate: &str| {
        let whole = strsim::normalized_damerau_levenshtein(&name.to_lowercase(), &candidate.to_lowercase());
        if last(name) == last(candidate) { whole.max(0.9) } else { whole }
    };
    candidates
        .map(|candidate| (similarity(candidate), candidate))
        .filter(|(score, _)| *score >= LEAST_SIMILARITY)
        // Of equals the first: sections stand in the order of their weight.
        .reduce(|best, next| if next.0 > best.0 { next } else { best })
        .map(|(_, candidate)| candidate.to_owned())
}

fn collect(schema: &Json, path: String, leaves: &mut Vec<(String, Shape)>) {
    let schema = plain(schema);
    let inner = item(schema).filter(|item| item.get("properties").is_some()).unwrap_or(schema);
    match inner.get("properties").and_then(Json::as_object) {
        Some(properties) => {
            for (name, property) in properties {
                collect(property, joined(&path, name), leaves);
            }
        }
        None => leaves.push((path, shape(schema))),
    }
}

fn unknown(table: &Table, schema: &Json, path: &str) -> Option<String> {
    let schema = plain(schema);
    let properties = schema.get("properties").and_then(Json::as_object)?;
    table.iter().find_map(|(name, value)| {
        let path = joined(path, name);
        match properties.get(name) {
            None => Some(first_leaf(path, value)),
            Some(property) => unknown_below(value, property, &path),
        }
    })
}

fn unknown_below(value: &Value, schema: &Json, path: &str) -> Option<String> {
    match value {
        Value::Table(table) => unknown(table, schema, path),
        Value::Array(items) => {
            let item = item(plain(schema))?;
            items.iter().find_map(|value| unknown_below(value, item, path))
        }
        _ => None,
    }
}

/// `limts` alone says less than `limts.timeout`.
fn first_leaf(path: String, value: &Value) -> String {
    match value.as_table().and_then(|table| table.iter().next()) {
        Some((name, value)) => first_leaf(joined(&path, name), value),
        None => path,
    }
}

/// The schema of a key that may also be absent is that of the key.
fn plain(schema: &Json) -> &Json {
    let options = schema.get("anyOf").and_then(Json::as_array);
    let other_than_null = options.and_then(|all| all.iter().find(|one| one.get("type").is_none_or(|t| t != "null")));
    other_than_null.unwrap_or(schema)
}

fn item(schema: &Json) -> Option<&Json> {
    schema.get("items").map(plain)
}

fn shape(schema: &Json) -> Shape {
    if is_text(schema) {
        Shape::Text
    } else if item(schema).is_some_and(is_text) {
        Shape::Texts
    } else {
        Shape::Other
    }
}

fn is_text(schema: &Json) -> bool {
    let named = |schema: &Json| match schema.get("type") {
        Some(Json::String(name)) => name == "string",
        Some(Json::Array(names)) => names.iter().any(|name| name == "string"),
        _ => false,
    };
    named(schema) || schema.get("oneOf").and_then(Json::as_array).is_some_and(|all| all.iter().all(named))
}

fn joined(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}
