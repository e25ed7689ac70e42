//! The tool definition that a model sees: `execute_code` with one string parameter, in the forms of three protocols.
//!
//! The text says what *this* configuration allows: the enabled tools, the limits in force, where the script starts. It never calls the place where
//! scripts run by a name that makes models think the network is out of reach; [`forbidden_words`] checks texts that come from elsewhere.

use serde_json::{Value, json};

use crate::job::Mode;
use crate::stubs;
use crate::tool::ToolSpec;

/// Name of the tool that models call.
pub const TOOL_NAME: &str = "execute_code";

/// Words that make models refuse work that needs the network.
const FORBIDDEN_WORDS: &[&str] = &["sandbox", "isolated", "cloud"];

/// Which protocol's form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// `{"type": "function", "function": {…}}` of OpenAI's chat completions.
    OpenAi,
    /// `{"name", "description", "input_schema"}` of Anthropic's messages.
    Anthropic,
    /// `{"name", "description", "inputSchema"}` of the Model Context Protocol.
    Mcp,
}

/// What the text is about.
#[derive(Debug, Clone)]
pub struct SchemaInput<'a> {
    /// The enabled tools, in the order in which they are shown.
    pub tools: &'a [ToolSpec],
    /// Module that scripts import them from.
    pub module: &'a str,
    /// Seconds for one run.
    pub timeout: f64,
    /// Tool calls that may be dispatched in one run.
    pub max_tool_calls: u64,
    /// Bytes of standard output that are kept.
    pub max_stdout: usize,
    /// Where scripts start.
    pub mode: Mode,
}

/// The tool definition in one protocol's form.
pub fn render(input: &SchemaInput<'_>, format: Format) -> Value {
    let description = description(input);
    let parameters = parameters(input);
    match format {
        Format::OpenAi => json!({
            "type": "function",
            "function": { "name": TOOL_NAME, "description": description, "parameters": parameters },
        }),
        Format::Anthropic => json!({ "name": TOOL_NAME, "description": description, "input_schema": parameters }),
        Format::Mcp => json!({ "name": TOOL_NAME, "description": description, "inputSchema": parameters }),
    }
}

/// Words in a text, in any case, that make models refuse work that needs the network. Our own text has none; descriptions of custom tools may.
pub fn forbidden_words(text: &str) -> Vec<&'static str> {
    let text = text.to_lowercase();
    FORBIDDEN_WORDS.iter().copied().filter(|word| text.contains(word)).collect()
}

fn parameters(input: &SchemaInput<'_>) -> Value {
    let mut text = String::from("Python source to run.");
    if let Some(import) = import_line(input) {
        text.push_str(&format!(" Import tools with `{import}` and print what you want to see."));
    } else {
        text.push_str(" Print what you want to see.");
    }
    json!({
        "type": "object",
        "properties": { "code": { "type": "string", "description": text } },
        "required": ["code"],
        "additionalProperties": false,
    })
}

fn description(input: &SchemaInput<'_>) -> String {
    let mut parts = vec![introduction(input).to_owned()];
    if !input.tools.is_empty() {
        parts.push(tool_list(input));
    }
    parts.push(limits(input));
    parts.push(mode(input.mode).to_owned());
    if !input.tools.is_empty() {
        parts.push(calling().to_owned());
    }
    parts.push(helpers(input));
    parts.join("\n\n")
}

fn introduction(input: &SchemaInput<'_>) -> &'static str {
    if input.tools.is_empty() {
        return "Run a Python script and get what it prints. Use it for computation and for working on text and data. The standard library is there; \
                no tools are enabled, so the script can't call any.";
    }
    "Run a Python script that can call tools as functions, and get what it prints. Use it when you need several tool calls with logic between them: \
     loops, conditions, filtering or reducing large results before you see them. For one simple call use the tool directly. The standard library is \
     there; only what the script prints comes back."
}

fn tool_list(input: &SchemaInput<'_>) -> String {
    let mut text = format!("Available from `{}`:", input.module);
    for spec in input.tools {
        text.push_str(&format!(
            "\n\n  {}\n    {}",
            stubs::signature(spec),
            spec.description.trim().replace('\n', "\n    ")
        ));
    }
    text
}

fn limits(input: &SchemaInput<'_>) -> String {
    let calls = match input.max_tool_calls {
        _ if input.tools.is_empty() => String::new(),
        1 => ", 1 tool call".to_owned(),
        calls => format!(", {calls} tool calls"),
    };
    format!(
        "Limits per script: {}{calls}, {} of printed output (a longer output loses its middle).",
        time(input.timeout),
        size(input.max_stdout)
    )
}

fn mode(mode: Mode) -> &'static str {
    match mode {
        Mode::Project => {
            "The script starts in the session's working directory, so relative paths mean the same as in the tools, and the project's own \
             modules can be imported."
        }
        Mode::Strict => {
            "The script starts in an empty private directory of its own; name files of the project by their full path in tool calls."
        }
    }
}

fn calling() -> &'static str {
    "A tool returns its result already decoded (usually a dict). A call that fails returns {\"error\": \"...\"} and does not raise: check \
     `\"error\" in result`. Calls may run at the same time with asyncio.gather, asyncio.to_thread or ThreadPoolExecutor."
}

fn helpers(input: &SchemaInput<'_>) -> String {
    format!(
        "Also in `{}`: json_parse(text) reads JSON that may hold raw control characters, shell_quote(s) quotes a string for a shell command, \
         retry(fn, max_attempts=3, delay=2) calls again after growing delays.",
        input.module
    )
}

/// An import that really works, with the first two tools.
fn import_line(input: &SchemaInput<'_>) -> Option<String> {
    let names: Vec<&str> = input.tools.iter().take(2).map(|spec| spec.name.as_str()).collect();
    let more = if input.tools.len() > names.len() { ", ..." } else { "" };
    (!names.is_empty()).then(|| format!("from {} import {}{more}", input.module, names.join(", ")))
}

/// `5 minutes`, `90 seconds`, `2.5 seconds`.
fn time(seconds: f64) -> String {
    let plural = |n: f64| if (n - 1.0).abs() < f64::EPSILON { "" } else { "s" };
    for (unit, name) in [(3600.0, "hour"), (60.0, "minute")] {
        let count = seconds / unit;
        if count >= 1.0 && count.fract() == 0.0 {
            return format!("{count} {name}{}", plural(count));
        }
    }
    format!("{seconds} second{}", plural(seconds))
}

/// `50 KB`, in the thousands that the output is cut by.
fn size(bytes: usize) -> String {
    if bytes >= 1000 && bytes.is_multiple_of(1000) { format!("{} KB", bytes / 1000) } else { format!("{bytes} bytes") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool::Effect;

    fn spec(name: &str, description: &str, schema: Value) -> ToolSpec {
        ToolSpec {
            name: name.into(),
            description: description.into(),
            schema,
            effect: Effect::Read,
            dropped_args: &[],
            returns: "dict",
        }
    }

    fn tools() -> Vec<ToolSpec> {
        vec![
            spec(
                "read_file",
                "Reads a text file.\nAnswers with its lines.",
                json!({"type": "object", "properties": {
                "path": {"type": "string"}, "offset": {"type": "integer", "default": 1}}, "required": ["path"]}),
            ),
            spec(
                "search_files",
                "Searches.",
                json!({"type": "object", "properties": {"pattern": {"type": "string"}}, "required": ["pattern"]}),
            ),
            spec("write_file", "Writes a text file.", json!({"type": "object", "properties": {}})),
        ]
    }

    fn input(tools: &[ToolSpec]) -> SchemaInput<'_> {
        SchemaInput {
            tools,
            module: "hermes_tools",
            timeout: 300.0,
            max_tool_calls: 50,
            max_stdout: 50_000,
            mode: Mode::Project,
        }
    }

    const FULL: &str = "\
Run a Python script that can call tools as functions, and get what it prints. Use it when you need several tool calls with logic between them: \
loops, conditions, filtering or reducing large results before you see them. For one simple call use the tool directly. The standard library is \
there; only what the script prints comes back.

Available from `hermes_tools`:

  read_file(path: str, offset: int = 1) -> dict
    Reads a text file.
    Answers with its lines.

  search_files(pattern: str) -> dict
    Searches.

  write_file() -> dict
    Writes a text file.

Limits per script: 5 minutes, 50 tool calls, 50 KB of printed output (a longer output loses its middle).

The script starts in the session's working directory, so relative paths mean the same as in the tools, and the project's own modules can be \
imported.

A tool returns its result already decoded (usually a dict). A call that fails returns {\"error\": \"...\"} and does not raise: check \
`\"error\" in result`. Calls may run at the same time with asyncio.gather, asyncio.to_thread or ThreadPoolExecutor.

Also in `hermes_tools`: json_parse(text) reads JSON that may hold raw control characters, shell_quote(s) quotes a string for a shell command, \
retry(fn, max_attempts=3, delay=2) calls again after growing delays.";

    #[test]
    fn the_whole_text() {
        assert_eq!(
            render(&input(&tools()), Format::Anthropic),
            json!({
                "name": "execute_code",
                "description": FULL,
                "input_schema": {
                    "type": "object",
                    "properties": {"code": {
                        "type": "string",
                        "description": "Python source to run. Import tools with `from hermes_tools import read_file, search_files, ...` and print \
                                        what you want to see."
                    }},
                    "required": ["code"],
                    "additionalProperties": false,
                },
            })
        );
    }

    #[test]
    fn the_three_forms_hold_the_same() {
        let tools = tools();
        let anthropic = render(&input(&tools), Format::Anthropic);
        let openai = render(&input(&tools), Format::OpenAi);
        let mcp = render(&input(&tools), Format::Mcp);
        assert_eq!(openai["type"], "function");
        assert_eq!(openai["function"]["name"], "execute_code");
        assert_eq!(openai["function"]["parameters"], anthropic["input_schema"]);
        assert_eq!(mcp["inputSchema"], anthropic["input_schema"]);
        assert_eq!(mcp["description"], anthropic["description"]);
        assert_eq!(openai["function"]["description"], anthropic["description"]);
    }

    #[test]
    fn only_what_is_enabled_and_configured_is_told() {
        let tools = tools();
        let own = SchemaInput {
            module: "lab",
            timeout: 90.0,
            max_tool_calls: 1,
            max_stdout: 1234,
            mode: Mode::Strict,
            ..input(&tools[..1])
        };
        let text = description(&own);
        assert!(!text.contains("search_files") && !text.contains("hermes"), "{text}");
        assert!(text.contains("Limits per script: 90 seconds, 1 tool call, 1234 bytes of printed output"), "{text}");
        assert!(text.contains("empty private directory"), "{text}");
        assert_eq!(import_line(&own).unwrap(), "from lab import read_file");
    }

    #[test]
    fn without_tools_it_promises_none() {
        let text = description(&input(&[]));
        assert!(
            text.contains("no tools are enabled") && !text.contains("tool calls,") && !text.contains("Available from"),
            "{text}"
        );
        assert_eq!(
            parameters(&input(&[]))["properties"]["code"]["description"],
            "Python source to run. Print what you want to see."
        );
    }

    #[test]
    fn no_word_that_makes_models_refuse() {
        let tools = tools();
        for tools in [&tools[..], &[]] {
            for mode in [Mode::Project, Mode::Strict] {
                for format in [Format::OpenAi, Format::Anthropic, Format::Mcp] {
                    let text = render(&SchemaInput { mode, ..input(tools) }, format).to_string();
                    assert_eq!(forbidden_words(&text), [""; 0]);
                }
            }
        }
        assert_eq!(forbidden_words("A Sandboxed CLOUD"), ["sandbox", "cloud"]);
    }

    #[test]
    fn times_read_well() {
        for (seconds, text) in
            [(1.0, "1 second"), (60.0, "1 minute"), (2.5, "2.5 seconds"), (5400.0, "90 minutes"), (7200.0, "2 hours")]
        {
            assert_eq!(time(seconds), text);
        }
    }
}
