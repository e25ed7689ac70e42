//! Cases as data: `tests/cases/NAME.py` with its expected output in `NAME.out`, on every backend.
//!
//! The first line may hold what is expected beyond a success without tool calls, and options of the run:
//! `#! {"status": "error", "kind": "script", "exit_code": 3, "made": 2, "refused": 1, "options": {"max_tool_calls": 2}}`.
//! On the science image a case has the same output, or the one in `NAME.science.out`: those files are the list of differences.
//! Run with `GLOVEPORT_BLESS=1` to write the `.out` files anew; read the difference before it is committed.

use std::fs;
use std::path::{Path, PathBuf};

use gloveport::{Request, Sandbox, Status};
use libtest_mimic::Trial;
use serde::Deserialize;

use crate::harness;

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Expected {
    status: Option<String>,
    kind: Option<String>,
    exit_code: Option<i32>,
    /// Why the case says nothing about the science image.
    slim_only: Option<String>,
    made: u64,
    refused: u64,
    options: Options,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Options {
    max_tool_calls: Option<u64>,
    enabled_tools: Option<Vec<String>>,
    timeout: Option<f64>,
    timezone: Option<String>,
    args: Vec<String>,
}

pub(crate) fn trials() -> Vec<Trial> {
    let dir = gloveport_tests::repository().join("tests/cases");
    let mut paths: Vec<PathBuf> = fs::read_dir(&dir)
        .expect("tests/cases")
        .map(|entry| entry.expect("an entry of tests/cases").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "py"))
        .collect();
    paths.sort();
    let mut trials = Vec::new();
    for path in paths {
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let output = path.with_extension("out");
        let different = path.with_extension("science.out");
        let output_of_science = if different.exists() { different } else { output.clone() };
        let of_science = path.clone();
        let slim_only = expected(&fs::read_to_string(&path).expect("a case is UTF-8")).slim_only.is_some();
        trials.push(harness::trial(format!("cases::wasi::{name}"), move || check(harness::sandbox(), path, output)));
        if slim_only {
            continue;
        }
        trials.push(harness::science_trial(format!("cases::science::{name}"), move |sandbox| {
            check(sandbox, of_science, output_of_science)
        }));
    }
    trials
}

async fn check(sandbox: Sandbox, path: PathBuf, output: PathBuf) {
    let code = fs::read_to_string(&path).expect("a case is UTF-8");
    let expected = expected(&code);
    let result = sandbox.execute(request(&code, &expected.options)).await;
    let json: serde_json::Value = serde_json::from_str(&result.to_json()).expect("a result is JSON");
    let status = expected.status.as_deref().unwrap_or("success");
    assert_eq!(json["status"], status, "{json}");
    assert_eq!(json.get("kind").and_then(|kind| kind.as_str()), expected.kind.as_deref(), "{json}");
    if result.status == Status::Success || expected.exit_code.is_some() {
        assert_eq!(result.exit_code, Some(expected.exit_code.unwrap_or(0)), "{json}");
    }
    assert_eq!((result.tool_calls_made, result.refused_calls), (expected.made, expected.refused), "{json}");
    compare(&output, result.output.as_ref().map_or("", |output| output.as_str()));
}

fn expected(code: &str) -> Expected {
    let first = code.lines().next().unwrap_or_default();
    first.strip_prefix("#! ").map(|json| serde_json::from_str(json).expect("the first line's JSON")).unwrap_or_default()
}

fn request(code: &str, options: &Options) -> Request {
    let mut request = Request::new(code).args(options.args.clone());
    request.max_tool_calls = options.max_tool_calls;
    request.enabled_tools.clone_from(&options.enabled_tools);
    request.timeout = options.timeout;
    request.timezone.clone_from(&options.timezone);
    request
}

fn compare(path: &Path, output: &str) {
    if std::env::var_os("GLOVEPORT_BLESS").is_some() {
        fs::write(path, output).expect("a blessed output");
        return;
    }
    let expected = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    assert_eq!(output, expected);
}
