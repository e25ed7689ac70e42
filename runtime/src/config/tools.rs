//! Tools without Rust: a command with JSON on its standard input and output.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::tool::Effect;

/// `[[tool]]`: a command that scripts call like any other tool. It gets the arguments as one JSON object and answers with one JSON value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CustomTool {
    /// Python identifier under which scripts import it.
    pub name: String,
    /// One or more sentences for the docstring and for the model.
    pub description: String,
    /// JSON schema of the arguments, an object schema. Its property order is the order of positional parameters. Absent: no arguments.
    #[serde(default = "no_arguments")]
    pub schema: Value,
    /// Program and its arguments; no shell is involved.
    pub command: Vec<String>,
    /// Seconds for one call.
    #[serde(default = "default_timeout")]
    pub timeout: f64,
    /// What it can change, which decides how approval treats it: `read`, `write`, `execute` or `network`.
    #[serde(default = "default_effect")]
    #[schemars(with = "String")]
    pub effect: Effect,
}

fn no_arguments() -> Value {
    json!({ "type": "object", "properties": {}, "additionalProperties": false })
}

fn default_timeout() -> f64 {
    60.0
}

fn default_effect() -> Effect {
    Effect::Execute
}
