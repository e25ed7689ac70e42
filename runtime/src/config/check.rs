//! What types alone can't say about a configuration.

use super::{Config, CustomTool, LONGEST_TIMEOUT, WorkspaceConfig};

/// Less than this and the guest can't even start: its own data takes 20 MB.
const LEAST_MEMORY_MB: u64 = 32;
/// As much as 32-bit WebAssembly can address; a container may have more.
const MOST_MEMORY_MB: u64 = 1 << 20;
/// Three standard streams, the working directory, `/tmp`, and room to open something.
const LEAST_DESCRIPTORS: u32 = 8;
/// Room for a small request and for any refusal.
const LEAST_MESSAGE_BYTES: u64 = 4096;
/// A message is held in memory several times over, so it stays far below the memory of a host.
const MOST_MESSAGE_BYTES: u64 = 256 << 20;
/// Output is held in memory with margins.
const MOST_OUTPUT_BYTES: usize = 64 << 20;

/// A value that the configuration may not hold.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{key}`: {problem}")]
#[non_exhaustive]
pub struct ConfigError {
    /// Dotted path of the key.
    pub key: String,
    /// What is wrong, as the rest of a sentence.
    pub problem: String,
}

impl ConfigError {
    pub(crate) fn new(key: impl Into<String>, problem: impl Into<String>) -> Self {
        Self { key: key.into(), problem: problem.into() }
    }
}

type Check = Result<(), ConfigError>;

pub(super) fn check(config: &Config) -> Check {
    limits(config)?;
    output(config)?;
    module(&config.module)?;
    workspace(config)?;
    variable_names(config)?;
    custom_tools(config)
}

fn limits(config: &Config) -> Check {
    let limits = &config.limits;
    seconds("limits.max_timeout", limits.max_timeout, LONGEST_TIMEOUT)?;
    seconds("limits.timeout", limits.timeout, limits.max_timeout)?;
    if let Some(memory) = limits.memory {
        within("limits.memory", memory, LEAST_MEMORY_MB, MOST_MEMORY_MB)?;
    }
    if let Some(disk) = limits.disk {
        within("limits.disk", disk, 1, MOST_MEMORY_MB)?;
    }
    within("limits.inodes", limits.inodes, 1, u64::from(u32::MAX))?;
    within("limits.descriptors", limits.descriptors.into(), LEAST_DESCRIPTORS.into(), 65_536)?;
    within("limits.request_bytes", limits.request_bytes, LEAST_MESSAGE_BYTES, MOST_MESSAGE_BYTES)?;
    within("limits.answer_bytes", limits.answer_bytes, LEAST_MESSAGE_BYTES, MOST_MESSAGE_BYTES)?;
    within("limits.outstanding_calls", limits.outstanding_calls.into(), 1, 65_536)
}

fn output(config: &Config) -> Check {
    most("output.max_stdout", config.output.max_stdout)?;
    most("output.max_stderr", config.output.max_stderr)?;
    match config.output.head_ratio {
        ratio if (0.0..=1.0).contains(&ratio) => Ok(()),
        ratio => Err(ConfigError::new("output.head_ratio", format!("{ratio} is not between 0 and 1"))),
    }
}

fn most(key: &str, bytes: usize) -> Check {
    if bytes <= MOST_OUTPUT_BYTES {
        return Ok(());
    }
    Err(ConfigError::new(key, format!("{bytes} is more than {MOST_OUTPUT_BYTES}")))
}

fn module(name: &str) -> Check {
    if !is_python_name(name) {
        return Err(ConfigError::new("module", format!("{name:?} is not a Python identifier")));
    }
    // A module of the standard library would be hidden from the scripts that need it.
    if ["sys", "os", "json", "re", "math", "asyncio", "builtins"].contains(&name) {
        return Err(ConfigError::new("module", format!("{name:?} is a module of the Python standard library")));
    }
    Ok(())
}

fn workspace(config: &Config) -> Check {
    match &config.workspace {
        Some(WorkspaceConfig::Directory { path, .. }) if path.as_os_str().is_empty() => {
            Err(ConfigError::new("workspace", "the directory's name is empty"))
        }
        _ => Ok(()),
    }
}

fn variable_names(config: &Config) -> Check {
    for name in &config.env.pass {
        if name.is_empty() || name.contains(['=', '\0']) {
            return Err(ConfigError::new("env.pass", format!("{name:?} is not a variable's name")));
        }
    }
    Ok(())
}

fn custom_tools(config: &Config) -> Check {
    let mut names: Vec<&str> = Vec::new();
    for tool in &config.custom_tools {
        custom_tool(tool)?;
        if names.contains(&tool.name.as_str()) {
            return Err(ConfigError::new("tool.name", format!("two tools are called {:?}", tool.name)));
        }
        names.push(&tool.name);
    }
    Ok(())
}

fn custom_tool(tool: &CustomTool) -> Check {
    if !is_python_name(&tool.name) {
        return Err(ConfigError::new("tool.name", format!("{:?} is not a Python identifier", tool.name)));
    }
    let of_tool = |problem: &str| format!("{problem} (tool {:?})", tool.name);
    if tool.command.first().is_none_or(String::is_empty) {
        return Err(ConfigError::new("tool.command", of_tool("the program's name is missing")));
    }
    if tool.command.iter().any(|part| part.contains('\0')) {
        return Err(ConfigError::new("tool.command", of_tool("it contains a NUL character")));
    }
    if tool.schema.get("type").and_then(serde_json::Value::as_str) != Some("object") {
        return Err(ConfigError::new("tool.schema", of_tool("it has to be an object schema, with type = \"object\"")));
    }
    seconds("tool.timeout", tool.timeout, LONGEST_TIMEOUT)
}

fn seconds(key: &str, value: f64, most: f64) -> Check {
    // Written so that NaN fails.
    if value > 0.0 && value <= most {
        return Ok(());
    }
    Err(ConfigError::new(key, format!("{value} is not a number of seconds above 0 and at most {most}")))
}

fn within(key: &str, value: u64, least: u64, most: u64) -> Check {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    Err(ConfigError::new(key, format!("{value} is not between {least} and {most}")))
}

/// Whether Python takes `name` as an identifier that is not a keyword. ASCII only: a tool's name is also shown to models and compared exactly.
pub(crate) fn is_python_name(name: &str) -> bool {
    let mut bytes = name.bytes();
    let starts = bytes.next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_');
    starts && bytes.all(|b| b.is_ascii_alphanumeric() || b == b'_') && !KEYWORDS.contains(&name)
}

/// The keywords of Python 3.13 (`keyword.kwlist`).
#[rustfmt::skip]
const KEYWORDS: &[&str] = &[
    "False", "None", "True", "and", "as", "assert", "async", "await", "break", "class", "continue", "def", "del", "elif",
    "else", "except", "finally", "for", "from", "global", "if", "import", "in", "is", "lambda", "nonlocal", "not", "or",
    "pass", "raise", "return", "try", "while", "with", "yield",
];

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn message(change: serde_json::Value) -> String {
        let config: Config = serde_json::from_value(change).unwrap();
        config.check().unwrap_err().to_string()
    }

    #[test]
    fn each_bad_value_is_named() {
        let tool = |field: &str, value: serde_json::Value| {
            let mut tool = json!({"name": "look_up", "description": "d", "command": ["c"]});
            tool[field] = value;
            json!({ "tool": [tool] })
        };
        let cases = [
            (
                json!({"limits": {"timeout": 0}}),
                "`limits.timeout`: 0 is not a number of seconds above 0 and at most 86400",
            ),
            (
                json!({"limits": {"timeout": 9, "max_timeout": 8}}),
                "`limits.timeout`: 9 is not a number of seconds above 0 and at most 8",
            ),
            (
                json!({"limits": {"max_timeout": 1e9}}),
                "`limits.max_timeout`: 1000000000 is not a number of seconds above 0 and at most 86400",
            ),
            (json!({"limits": {"memory": 1}}), "`limits.memory`: 1 is not between 32 and 1048576"),
            (json!({"limits": {"descriptors": 0}}), "`limits.descriptors`: 0 is not between 8 and 65536"),
            (json!({"output": {"head_ratio": 1.5}}), "`output.head_ratio`: 1.5 is not between 0 and 1"),
            (json!({"module": "class"}), "`module`: \"class\" is not a Python identifier"),
            (json!({"module": "a.b"}), "`module`: \"a.b\" is not a Python identifier"),
            (json!({"module": "json"}), "`module`: \"json\" is a module of the Python standard library"),
            (json!({"env": {"pass": ["A=B"]}}), "`env.pass`: \"A=B\" is not a variable's name"),
            (tool("name", json!("look-up")), "`tool.name`: \"look-up\" is not a Python identifier"),
            (tool("command", json!([])), "`tool.command`: the program's name is missing (tool \"look_up\")"),
            (
                tool("schema", json!({"type": "string"})),
                "`tool.schema`: it has to be an object schema, with type = \"object\" (tool \"look_up\")",
            ),
            (tool("timeout", json!(-1)), "`tool.timeout`: -1 is not a number of seconds above 0 and at most 86400"),
        ];
        for (change, expected) in cases {
            assert_eq!(message(change), expected);
        }
    }

    #[test]
    fn nan_is_no_time() {
        let mut config = Config::default();
        config.limits.timeout = f64::NAN;
        assert_eq!(
            config.check().unwrap_err().to_string(),
            "`limits.timeout`: NaN is not a number of seconds above 0 and at most 86400"
        );
    }
}
