//! What the integration suite and the benches share: tools that do something observable, and a place for their files.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use gloveport::tool::{Effect, Tool, ToolError, ToolSpec, tool_fn};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Echo {
    /// Any JSON value.
    value: Value,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Pause {
    /// Milliseconds.
    ms: u64,
    /// Comes back in the answer.
    #[serde(default)]
    tag: Value,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Add {
    /// First summand.
    a: i64,
    /// Second summand.
    #[serde(default = "one")]
    b: i64,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Text {
    /// What the error says.
    text: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Size {
    /// Bytes of content to answer with.
    bytes: usize,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Nothing {}

fn one() -> i64 {
    1
}

/// Tools whose effects a test can see:
/// `echo(value)`, `pause(ms, tag)`, `block(ms)`, `add(a, b=1)`, `fail(text)`, `boom()`, `content(bytes)`.
pub fn probe_tools() -> Vec<Arc<dyn Tool>> {
    let spec = |spec: ToolSpec| spec.effect(Effect::Read);
    vec![
        tool_fn(spec(ToolSpec::new::<Echo>("echo", "Answers with its argument.")), |args: Echo, _| async {
            Ok(args.value)
        }),
        tool_fn(spec(ToolSpec::new::<Pause>("pause", "Answers after a while.")), |args: Pause, _| async move {
            tokio::time::sleep(Duration::from_millis(args.ms)).await;
            Ok(json!({ "ms": args.ms, "tag": args.tag }))
        }),
        tool_fn(
            spec(ToolSpec::new::<Pause>("block", "Blocks its thread, as handlers should not.")),
            |args: Pause, _| async move {
                std::thread::sleep(Duration::from_millis(args.ms));
                Ok(json!({ "ms": args.ms }))
            },
        ),
        tool_fn(spec(ToolSpec::new::<Add>("add", "Adds two integers.")), |args: Add, _| async move {
            Ok(args.a.wrapping_add(args.b).into())
        }),
        tool_fn(spec(ToolSpec::new::<Text>("fail", "Fails.")), |args: Text, _| async move {
            Err(ToolError::Failed(args.text))
        }),
        tool_fn(spec(ToolSpec::new::<Nothing>("boom", "Panics.")), |_: Nothing, _| async {
            panic!("boom with sk-secret")
        }),
        tool_fn(spec(ToolSpec::new::<Size>("content", "Answers with many bytes.")), |args: Size, _| async move {
            Ok(json!({ "content": "x".repeat(args.bytes) }))
        }),
    ]
}

/// The repository's root.
pub fn repository() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..")
}
