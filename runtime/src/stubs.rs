//! How tools look to a script: descriptors for the guest's shim, and Python text for models and type checkers.
//!
//! Pure. Parameter order is the property order of the schema, required ones first.

use std::fmt::Write as _;

use serde::Serialize;
use serde_json::Value;

use crate::tool::ToolSpec;

/// One parameter of a tool, as Python sees it.
#[derive(Debug, Clone, Serialize, PartialEq)]
pub struct Param {
    /// Its name.
    pub name: String,
    /// A Python annotation: `str`, `int`, `list[str]`, `dict`…
    #[serde(rename = "type")]
    pub annotation: String,
    /// Whether it must be given.
    pub required: bool,
    /// Its default; absent for required ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default: Option<Value>,
    /// What the schema says of it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub doc: String,
}

/// One tool, as Python sees it.
#[derive(Debug, Clone, Serialize, PartialEq)]
pub struct Stub {
    /// Function name.
    pub name: String,
    /// Docstring.
    pub doc: String,
    /// Parameters in positional order.
    pub params: Vec<Param>,
    /// Annotation of the answer.
    pub returns: String,
}

/// The stubs of one run, with the JSON text that the guest's shim reads made once.
#[derive(Debug, Clone)]
pub struct ToolStubs {
    /// In the order in which the tools were enabled.
    pub stubs: Vec<Stub>,
    /// `stubs` as JSON.
    pub json: String,
}

impl ToolStubs {
    /// Stubs of these tools.
    pub fn new<'a>(specs: impl IntoIterator<Item = &'a ToolSpec>) -> Self {
        let stubs: Vec<Stub> = specs.into_iter().map(stub).collect();
        // Serializing strings and JSON values has no way to fail; an empty list is the closed answer if it ever did.
        let json = serde_json::to_string(&stubs).unwrap_or_else(|_| String::from("[]"));
        Self { stubs, json }
    }
}

/// The stub of one tool.
pub fn stub(spec: &ToolSpec) -> Stub {
    Stub {
        name: spec.name.clone(),
        doc: spec.description.clone(),
        params: params(&spec.schema),
        returns: spec.returns.to_owned(),
    }
}

fn params(schema: &Value) -> Vec<Param> {
    let required: Vec<&str> =
        schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
    let mut params: Vec<Param> = schema
        .get("properties")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .map(|(name, property)| {
            let required = required.contains(&name.as_str());
            Param {
                name: name.clone(),
                annotation: annotation(property, required),
                required,
                default: (!required).then(|| property.get("default").cloned().unwrap_or(Value::Null)),
                doc: property.get("description").and_then(Value::as_str).unwrap_or_default().to_owned(),
            }
        })
        .collect();
    // Python wants parameters without defaults first; the sort is stable, so the schema's order holds otherwise.
    params.sort_by_key(|p| !p.required);
    params
}

fn annotation(property: &Value, required: bool) -> String {
    let base = base_annotation(property);
    let null_default = !required && property.get("default").is_none_or(Value::is_null);
    if null_default && base != "Any" && !base.split(" | ").any(|t| t == "None") {
        format!("{base} | None")
    } else {
        base
    }
}

fn base_annotation(property: &Value) -> String {
    if let Some(values) = property.get("enum").and_then(Value::as_array)
        && !values.is_empty()
        && values.iter().all(Value::is_string)
    {
        let literals: Vec<String> = values.iter().map(python_literal).collect();
        return format!("Literal[{}]", literals.join(", "));
    }
    if let Some(value) = property.get("const") {
        return format!("Literal[{}]", python_literal(value));
    }
    for key in ["anyOf", "oneOf"] {
        if let Some(options) = property.get(key).and_then(Value::as_array) {
            return union(options.iter().map(base_annotation));
        }
    }
    match property.get("type") {
        Some(Value::String(name)) => typed(name, property),
        Some(Value::Array(names)) => union(names.iter().filter_map(Value::as_str).map(|name| typed(name, property))),
        _ => String::from("Any"),
    }
}

fn union(parts: impl Iterator<Item = String>) -> String {
    let mut seen: Vec<String> = Vec::new();
    for part in parts {
        if !seen.contains(&part) {
            seen.push(part);
        }
    }
    let literals: Vec<&str> = seen.iter().filter_map(|part| part.strip_prefix("Literal[")?.strip_suffix(']')).collect();
    if literals.len() > 1 {
        let merged = format!("Literal[{}]", literals.join(", "));
        seen.retain(|part| !part.starts_with("Literal["));
        seen.insert(0, merged);
    }
    // `None` last, as people write it.
    seen.sort_by_key(|part| part == "None");
    if seen.is_empty() { String::from("Any") } else { seen.join(" | ") }
}

fn typed(name: &str, property: &Value) -> String {
    match name {
        "string" => "str".into(),
        "integer" => "int".into(),
        "number" => "float".into(),
        "boolean" => "bool".into(),
        "null" => "None".into(),
        "object" => "dict".into(),
        "array" => match property.get("items") {
            Some(items) if items.is_object() => format!("list[{}]", base_annotation(items)),
            _ => "list".into(),
        },
        _ => "Any".into(),
    }
}

/// A JSON value as a Python literal.
pub fn python_literal(value: &Value) -> String {
    match value {
        Value::Null => "None".into(),
        Value::Bool(true) => "True".into(),
        Value::Bool(false) => "False".into(),
        Value::Number(number) => number.to_string(),
        Value::String(text) => python_string(text),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(python_literal).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Object(map) => {
            let items: Vec<String> =
                map.iter().map(|(key, value)| format!("{}: {}", python_string(key), python_literal(value))).collect();
            format!("{{{}}}", items.join(", "))
        }
    }
}

fn python_string(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c.is_control() => drop(write!(out, "\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// `name(a: str, b: int = 1) -> dict`.
pub fn signature(spec: &ToolSpec) -> String {
    signature_of(&stub(spec))
}

fn signature_of(stub: &Stub) -> String {
    let params: Vec<String> = stub
        .params
        .iter()
        .map(|p| match &p.default {
            Some(default) => format!("{}: {} = {}", p.name, p.annotation, python_literal(default)),
            None => format!("{}: {}", p.name, p.annotation),
        })
        .collect();
    format!("{}({}) -> {}", stub.name, params.join(", "), stub.returns)
}

/// A type stub (`.pyi`) of the whole module, helpers included.
pub fn pyi<'a>(specs: impl IntoIterator<Item = &'a ToolSpec>, module: &str) -> String {
    let mut out = format!("\"\"\"Tools of the host, as `{module}` offers them to a script.\"\"\"\n\n");
    out.push_str(
        "from collections.abc import Callable\nfrom typing import Any, Literal, TypeVar\n\n_T = TypeVar(\"_T\")\n",
    );
    for spec in specs {
        let stub = fully_typed(stub(spec));
        let _ = write!(out, "\ndef {}:\n    {}\n    ...\n", signature_of(&stub), docstring(&stub));
    }
    out.push_str(HELPERS);
    out
}

/// The same with what a strict type checker asks for: parameters of generic types.
fn fully_typed(mut stub: Stub) -> Stub {
    for param in &mut stub.params {
        param.annotation = generic_in_full(&param.annotation);
    }
    stub.returns = generic_in_full(&stub.returns);
    stub
}

/// `dict` becomes `dict[str, Any]` and `list` becomes `list[Any]`, wherever they stand alone.
fn generic_in_full(annotation: &str) -> String {
    let mut out = String::with_capacity(annotation.len());
    let mut rest = annotation;
    while let Some(c) = rest.chars().next() {
        let length = match rest.find(|c: char| !(c.is_alphanumeric() || c == '_')) {
            _ if c == '"' => literal_length(rest),
            Some(0) => c.len_utf8(),
            end => end.unwrap_or(rest.len()),
        };
        let (word, after) = rest.split_at(length);
        out.push_str(word);
        match word {
            "dict" if !after.starts_with('[') => out.push_str("[str, Any]"),
            "list" if !after.starts_with('[') => out.push_str("[Any]"),
            _ => {}
        }
        rest = after;
    }
    out
}

/// Length of the Python string literal that a text begins with.
fn literal_length(text: &str) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            '"' if !escaped => return at + 1,
            _ => escaped = c == '\\' && !escaped,
        }
    }
    text.len()
}

fn docstring(stub: &Stub) -> String {
    let mut text = stub.doc.clone();
    let documented: Vec<&Param> = stub.params.iter().filter(|p| !p.doc.is_empty()).collect();
    if !documented.is_empty() {
        text.push_str("\n\n    Args:");
        for param in documented {
            let _ = write!(text, "\n        {}: {}", param.name, param.doc.replace('\n', " "));
        }
        text.push_str("\n    ");
    }
    format!("\"\"\"{}\"\"\"", text.replace('\\', "\\\\").replace("\"\"\"", "\\\"\\\"\\\""))
}

const HELPERS: &str = r#"
def json_parse(text: Any) -> Any:
    """json.loads(strict=False); a leading BOM is accepted, a value that is already parsed is returned as is."""
    ...

def shell_quote(s: str) -> str:
    """shlex.quote."""
    ...

def retry(fn: Callable[[], _T], max_attempts: int = 3, delay: float = 2) -> _T:
    """Calls fn again after delay, 2*delay, 4*delay... seconds; re-raises the last error."""
    ...
"#;

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn spec() -> ToolSpec {
        ToolSpec {
            name: "read_file".into(),
            description: "Reads a file.".into(),
            schema: json!({"type": "object", "properties": {
                "limit": {"type": "integer", "default": 500},
                "path": {"type": "string", "description": "Which file."},
                "glob": {"type": ["string", "null"]},
                "mode": {"enum": ["a", "b"], "default": "a"},
                "urls": {"type": "array", "items": {"type": "string"}, "default": []},
            }, "required": ["path"]}),
            effect: crate::tool::Effect::Read,
            dropped_args: &[],
            returns: "dict",
        }
    }

    #[test]
    fn signature_puts_required_parameters_first_and_shows_defaults() {
        assert_eq!(
            signature(&spec()),
            "read_file(path: str, limit: int = 500, glob: str | None = None, mode: Literal[\"a\", \"b\"] = \"a\", \
             urls: list[str] = []) -> dict"
        );
    }

    #[test]
    fn stubs_satisfy_a_strict_type_checker() {
        for (annotation, full) in [
            ("dict", "dict[str, Any]"),
            ("list[dict] | None", "list[dict[str, Any]] | None"),
            ("list", "list[Any]"),
            ("Literal[\"dict\", \"a \\\" list\"] | list", "Literal[\"dict\", \"a \\\" list\"] | list[Any]"),
            ("dictionary", "dictionary"),
        ] {
            assert_eq!(generic_in_full(annotation), full);
        }
    }

    #[test]
    fn literals_are_python() {
        assert_eq!(
            python_literal(&json!({"a": [true, null, "x\"\n\\", 1.5]})),
            r#"{"a": [True, None, "x\"\n\\", 1.5]}"#
        );
    }

    #[test]
    fn json_is_what_the_shim_reads() {
        let stubs = ToolStubs::new([&spec()]);
        let value: Value = serde_json::from_str(&stubs.json).unwrap();
        assert_eq!(
            value[0]["params"][0],
            json!({"name": "path", "type": "str", "required": true, "doc": "Which file."})
        );
        assert_eq!(value[0]["params"][1], json!({"name": "limit", "type": "int", "required": false, "default": 500}));
    }
}
