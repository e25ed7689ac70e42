//! Tools that are commands.

use std::sync::Arc;
use std::time::{Duration, Instant};

use gloveport::config::CustomTool;
use gloveport::tool::Tool;
use serde_json::{Value, json};

use crate::support::{call, context};

fn configured(script: &str, timeout: f64) -> CustomTool {
    serde_json::from_value(json!({
        "name": "mine", "description": "Does something.", "command": ["/bin/sh", "-c", script], "timeout": timeout,
        "schema": { "type": "object", "properties": { "n": { "type": "integer" } }, "required": ["n"], "additionalProperties": false }
    }))
    .unwrap()
}

fn tools(script: &str, timeout: f64) -> Vec<Arc<dyn Tool>> {
    let env = vec![("PATH".to_owned(), "/usr/bin:/bin".to_owned())];
    gloveport_tools::custom_tools(&[configured(script, timeout)], env, "/").unwrap()
}

async fn run(script: &str, args: Value) -> Value {
    call(&tools(script, 5.0), "mine", args, &context(None)).await
}

#[tokio::test]
async fn a_command_gets_json_and_gives_json() {
    assert_eq!(run("cat", json!({ "n": 1 })).await, json!({ "n": 1 }));
    assert_eq!(run("echo '[1, \"a\"]'", json!({ "n": 1 })).await, json!([1, "a"]));
    assert_eq!(run("pwd | sed 's/.*/\"&\"/'", json!({ "n": 1 })).await, "/");
    assert_eq!(
        run("exit 0", json!({ "n": 1 })).await["error"],
        "Tool 'mine' gave no valid JSON on its standard output: EOF while parsing a value at line 1 column 0"
    );
    assert_eq!(
        run("echo oops >&2; exit 3", json!({ "n": 1 })).await["error"],
        "Tool 'mine' failed with exit code 3: oops"
    );
    assert_eq!(run("exit 4", json!({ "n": 1 })).await["error"], "Tool 'mine' failed with exit code 4");
    assert_eq!(run("cat", json!({ "n": "x" })).await["error"], "argument 'n': \"x\" is not of type \"integer\"");
    assert_eq!(run("cat", json!({})).await["error"], "\"n\" is a required property");
    let flood = run("head -c 20000000 /dev/zero", json!({ "n": 1 })).await;
    assert_eq!(flood["error"], "Tool 'mine' answered with 20,000,000 bytes, 16 MiB is the most");
}

#[tokio::test]
async fn a_late_command_is_killed() {
    let began = Instant::now();
    let late = call(&tools("sleep 60", 0.2), "mine", json!({ "n": 1 }), &context(None)).await;
    assert_eq!(late["error"], "Tool 'mine' timed out after 0.2s and was killed");
    assert!(began.elapsed() < Duration::from_secs(30));
}

#[test]
fn configurations_that_are_not_usable_are_named() {
    let refused = |change: &dyn Fn(&mut CustomTool)| {
        let mut tool = configured("cat", 1.0);
        change(&mut tool);
        gloveport_tools::custom_tools(&[tool], Vec::new(), "/").err().unwrap().to_string()
    };
    assert_eq!(refused(&|t| t.command = vec![]), "tool 'mine': 'command' names no program");
    assert_eq!(refused(&|t| t.timeout = -1.0), "tool 'mine': 'timeout' must be a positive number of seconds");
    assert_eq!(
        refused(&|t| t.schema = json!({ "type": "array" })),
        "tool 'mine': 'schema' is not usable: its 'type' must be 'object'"
    );
    assert!(
        refused(&|t| t.schema = json!({ "type": "object", "properties": 5 }))
            .starts_with("tool 'mine': 'schema' is not usable: ")
    );
}
