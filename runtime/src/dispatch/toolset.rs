//! The registered tools, and those that one run may call.

mod schema;

use std::fmt;
use std::sync::{Arc, OnceLock};

use jsonschema::Validator;
use serde_json::{Map, Value};

use crate::config::is_python_name;
use crate::stubs::ToolStubs;
use crate::tool::{Tool, ToolSpec};

/// A tool that is ready to be called.
pub(super) struct PreparedTool {
    pub(super) tool: Arc<dyn Tool>,
    pub(super) spec: ToolSpec,
    /// Made when the tool is first called, unless the schema had to be tried when the sandbox was built.
    validator: OnceLock<Validator>,
}

impl PreparedTool {
    fn new(tool: Arc<dyn Tool>, spec: ToolSpec) -> Result<Self, ToolSetError> {
        let prepared = Self { tool, spec, validator: OnceLock::new() };
        if !schema::is_plain(&prepared.spec.schema)
            && let Err(problem) = prepared.validator()
        {
            return Err(ToolSetError::Schema { tool: prepared.spec.name, problem });
        }
        Ok(prepared)
    }

    /// The compiled schema, or what is wrong with it.
    fn validator(&self) -> Result<&Validator, String> {
        if let Some(made) = self.validator.get() {
            return Ok(made);
        }
        let made = jsonschema::validator_for(&self.spec.schema).map_err(|error| error.to_string())?;
        Ok(self.validator.get_or_init(|| made))
    }

    /// Checks arguments against the schema. The text names the argument.
    pub(super) fn check(&self, args: &Map<String, Value>) -> Result<(), String> {
        // Names first: a schema that forgot `additionalProperties` must not let an unknown argument through.
        if self.spec.schema.get("additionalProperties").is_none_or(|more| more == false)
            && let Some(properties) = self.spec.schema.get("properties").and_then(Value::as_object)
            && let Some(unknown) = args.keys().find(|name| !properties.contains_key(*name))
        {
            return Err(format!("{}() got an unexpected argument '{unknown}'", self.spec.name));
        }
        if let Some(required) = self.spec.schema.get("required").and_then(Value::as_array)
            && let Some(missing) = required.iter().filter_map(Value::as_str).find(|name| !args.contains_key(*name))
        {
            return Err(format!("{}() is missing the required argument '{missing}'", self.spec.name));
        }
        // Cloning is not needed for the common case: the validator reads a borrowed value.
        let args = Value::Object(args.clone());
        let validator = self
            .validator()
            .map_err(|problem| format!("{}() can't be called: its schema can't be used: {problem}", self.spec.name))?;
        let Err(error) = validator.validate(&args) else { return Ok(()) };
        let path = error.instance_path().to_string();
        let name = path.trim_start_matches('/').replace('/', ".");
        // The value itself may be a megabyte: the text says what was expected, not what was given.
        let choices = choices(&self.spec.schema, &name);
        let problem = if choices.is_empty() {
            error.masked_with("the value").to_string()
        } else {
            format!("must be one of {}", choices.join(", "))
        };
        Err(if name.is_empty() {
            format!("{}() arguments: {problem}", self.spec.name)
        } else {
            format!("{}() argument '{name}': {problem}", self.spec.name)
        })
    }
}

/// The values that an argument may have, where the schema lists them.
fn choices(schema: &Value, name: &str) -> Vec<String> {
    fn collect(schema: &Value, found: &mut Vec<String>) {
        found.extend(schema.get("const").filter(|value| value.is_string()).map(Value::to_string));
        found.extend(schema.get("enum").and_then(Value::as_array).into_iter().flatten().map(Value::to_string));
        for key in ["oneOf", "anyOf"] {
            schema.get(key).and_then(Value::as_array).into_iter().flatten().for_each(|option| collect(option, found));
        }
    }
    let mut found = Vec::new();
    if let Some(property) = schema.get("properties").and_then(|properties| properties.get(name)) {
        collect(property, &mut found);
    }
    found
}

/// Why a set of tools could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ToolSetError {
    /// Two tools have one name.
    #[error("two tools are named '{0}'")]
    Duplicate(String),
    /// A name is not a Python identifier, or is taken by a helper of the module.
    #[error(
        "'{0}' can't be a tool's name: it must be a Python identifier that is no keyword and no helper of the module"
    )]
    Name(String),
    /// A schema is broken.
    #[error("the schema of tool '{tool}' can't be used: {problem}")]
    Schema {
        /// Which tool.
        tool: String,
        /// What the validator said.
        problem: String,
    },
}

/// All tools of a sandbox, schemas checked.
#[derive(Clone, Default)]
pub struct ToolSet {
    tools: Arc<Vec<Arc<PreparedTool>>>,
}

impl fmt::Debug for ToolSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.tools.iter().map(|t| &t.spec.name)).finish()
    }
}

impl ToolSet {
    /// Prepares tools; their order is kept.
    pub fn new(tools: impl IntoIterator<Item = Arc<dyn Tool>>) -> Result<Self, ToolSetError> {
        let mut prepared: Vec<Arc<PreparedTool>> = Vec::new();
        for tool in tools {
            let spec = tool.spec();
            if !is_usable_name(&spec.name) {
                return Err(ToolSetError::Name(spec.name));
            }
            if prepared.iter().any(|p| p.spec.name == spec.name) {
                return Err(ToolSetError::Duplicate(spec.name));
            }
            prepared.push(Arc::new(PreparedTool::new(tool, spec)?));
        }
        Ok(Self { tools: Arc::new(prepared) })
    }

    /// Specs of all tools.
    pub fn specs(&self) -> impl Iterator<Item = &ToolSpec> {
        self.tools.iter().map(|t| &t.spec)
    }

    /// The tools of one run: those named, in registered order.
    pub fn enable(&self, names: &[String]) -> EnabledTools {
        let tools: Vec<_> = self.tools.iter().filter(|t| names.contains(&t.spec.name)).cloned().collect();
        let stubs = Arc::new(ToolStubs::new(tools.iter().map(|t| &t.spec)));
        EnabledTools { tools: Arc::new(tools), stubs }
    }
}

/// The tools that one run may call. Cheap to clone.
#[derive(Clone)]
pub struct EnabledTools {
    tools: Arc<Vec<Arc<PreparedTool>>>,
    stubs: Arc<ToolStubs>,
}

impl EnabledTools {
    /// What the script's module holds.
    pub fn stubs(&self) -> &Arc<ToolStubs> {
        &self.stubs
    }

    pub(super) fn get(&self, name: &str) -> Option<&Arc<PreparedTool>> {
        // A few dozen names at most: walking them is as fast as hashing.
        self.tools.iter().find(|tool| tool.spec.name == name)
    }

    /// `a, b`, or `none`.
    pub(super) fn names_text(&self) -> String {
        if self.tools.is_empty() {
            return String::from("none");
        }
        let mut names: Vec<&str> = self.tools.iter().map(|t| t.spec.name.as_str()).collect();
        names.sort_unstable();
        names.join(", ")
    }
}

/// Names that the module has of its own.
const HELPERS: &[&str] = &["json_parse", "shell_quote", "retry"];

fn is_usable_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic()) && is_python_name(name) && !HELPERS.contains(&name)
}
