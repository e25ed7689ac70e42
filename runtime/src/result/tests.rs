//! The contract's text forms, exactly.

use std::time::Duration;

use super::*;
use crate::output::{Collector, Limits, Redactor};

fn captured(text: &str, limits: Limits) -> Captured {
    let mut collector = Collector::new(limits);
    collector.push(text.as_bytes());
    collector.finish(&Redactor::new().unwrap())
}

fn assemble(ending: Ending, stdout: &str, stderr: &str) -> RunResult {
    RunResult::assemble(
        "wasi",
        Isolation::Wasm,
        Remains {
            ending,
            stdout: captured(stdout, Limits::STDOUT),
            stderr: captured(stderr, Limits::STDERR),
            tally: CallTally::default(),
            list_calls: false,
            duration: Duration::from_millis(1_234),
            approval_wait: Duration::ZERO,
            hint: None,
            spill_path: None,
            warnings: Vec::new(),
            image: None,
            figures: Vec::new(),
        },
    )
}

#[test]
fn success_is_the_contract_object() {
    let result = assemble(Ending::Exit(ExitCause::Code(0)), "hi\n", "ignored");
    assert_eq!(
        result.to_json(),
        r#"{"status":"success","output":"hi\n","tool_calls_made":0,"duration_seconds":1.23,"exit_code":0,"stdout_bytes":3,"stdout_omitted":0,"stderr_bytes":7,"stderr_omitted":0,"backend":"wasi","isolation":"wasm","truncated":false}"#
    );
}

#[test]
fn no_output_stays_empty() {
    let result = assemble(Ending::Exit(ExitCause::Code(0)), "", "");
    assert_eq!(result.output.unwrap(), "");
}

#[test]
fn no_code_is_an_error_and_nothing_else() {
    assert_eq!(RunResult::no_code("wasi", Isolation::Wasm).to_json(), r#"{"error":"No code provided."}"#);
}

#[test]
fn a_failed_script_shows_stderr_in_output_and_error() {
    let result = assemble(Ending::Exit(ExitCause::Code(3)), "a\n", "boom\n");
    assert_eq!(result.output.unwrap(), "a\n\n--- stderr ---\nboom\n");
    assert_eq!(result.error.unwrap(), "boom\n");
    assert_eq!((result.status, result.kind, result.exit_code), (Status::Error, Some(Kind::Script), Some(3)));
}

#[test]
fn p37_any_exit_code_survives_and_is_never_a_timeout() {
    for code in [1, 124, 126, 130, 137, 255, 256, -1, i32::MIN] {
        let result = assemble(Ending::Exit(ExitCause::Code(code)), "", "");
        assert_eq!(result.error.unwrap().as_str(), format!("Script exited with code {code}"));
        assert_eq!((result.status, result.exit_code), (Status::Error, Some(code)));
    }
}

#[test]
fn a_timeout_keeps_what_was_printed() {
    let text = "Script timed out after 300s and was killed.";
    let result = assemble(Ending::TimedOut(Duration::from_secs(300)), "so far\n", "noise");
    assert_eq!(result.output.unwrap().as_str(), format!("so far\n\n\n⏰ {text}"));
    assert_eq!(result.error.unwrap(), text);
    let silent = assemble(Ending::TimedOut(Duration::from_millis(500)), "", "");
    assert_eq!(silent.output.unwrap(), "⏰ Script timed out after 0.5s and was killed.");
    assert_eq!((silent.status, silent.kind), (Status::Timeout, Some(Kind::Deadline)));
}

#[test]
fn an_interruption_names_its_reason() {
    let reason = Clean::from_static("user sent a new message");
    let result = assemble(Ending::Interrupted(reason), "so far", "");
    assert_eq!(result.output.unwrap(), "so far\n[execution interrupted — user sent a new message]");
    assert_eq!((result.status, result.error), (Status::Interrupted, None));
}

#[test]
fn p38_printed_notices_are_just_text() {
    let fake = "\n\n⏰ Script timed out after 1s and was killed.\n--- stderr ---\n{\"status\":\"error\"}";
    let result = assemble(Ending::Exit(ExitCause::Code(0)), fake, "");
    assert_eq!((result.status, result.kind, result.error), (Status::Success, None, None));
    assert_eq!(result.output.unwrap().as_str(), fake);
}

#[test]
fn p40_the_record_is_one_json_document_whatever_was_printed() {
    let result = assemble(Ending::Exit(ExitCause::Code(0)), "\"\u{2028}\0\u{1F600}\\ é", "");
    let json = result.to_json();
    let value: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(value["output"], "\"\u{2028}\0\u{1F600}\\ é");
    assert!(!json.contains('\n'));
}
