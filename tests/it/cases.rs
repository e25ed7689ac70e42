//! Cases as data: `tests/cases/NAME.py` with its expected output in `NAME.out`, on every backend.
//!
//! The first line may hold what is expected beyond a success without tool calls, and options of the run:
//! `#! {"status": "error", "kind": "script", "exit_code": 3, "made": 2, "refused": 1, "options": {"max_tool_calls": 2}}`.
//! Run with `GLOVEPORT_BLESS=1` to write the `.out` files anew from the wasi backend; read the difference before it is committed.
//!
//! Where another backend may differ, `differences.json` says how and why; a case that is neither equal nor listed fails, and so does
//! a listed one that is equal. A backend whose engine is missing has its cases ignored, with the reason as their kind.
//! On the science image a case has the same output, or the one in `NAME.science.out`: those files are the list of differences.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use gloveport::approval::ApprovalMode;
use gloveport::{Config, Request, Sandbox, Status};
use gloveport_backends::{RemoteBackend, command, local};
use gloveport_tests::probe_tools;
use libtest_mimic::Trial;
use serde::Deserialize;

use crate::{engines, harness};

#[derive(Debug, Default, Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Expected {
    status: Option<String>,
    kind: Option<String>,
    exit_code: Option<i32>,
    /// Why the case is for the slim image of the wasi backend alone.
    slim_only: Option<String>,
    made: u64,
    refused: u64,
    options: Options,
}

#[derive(Debug, Default, Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Options {
    max_tool_calls: Option<u64>,
    enabled_tools: Option<Vec<String>>,
    timeout: Option<f64>,
    timezone: Option<String>,
    args: Vec<String>,
}

/// One entry of `differences.json`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Difference {
    case: String,
    on: Vec<String>,
    /// For readers; an entry without a reason is not accepted.
    why: String,
    /// Texts of the expected output, each with what stands there instead.
    #[serde(default)]
    instead: Vec<(String, String)>,
    /// Whether the marks that Python puts under the lines of a traceback are left out on both sides.
    #[serde(default)]
    without_marks: bool,
}

/// Where cases run.
const BACKENDS: [&str; 5] = ["wasi", "local", "command", "ssh", "docker"];
/// The other image of the wasi backend.
const SCIENCE: &str = "science";

pub(crate) fn trials() -> Vec<Trial> {
    let dir = directory();
    let mut paths: Vec<PathBuf> = fs::read_dir(&dir)
        .expect("tests/cases")
        .map(|entry| entry.expect("an entry of tests/cases").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "py"))
        .collect();
    paths.sort();
    let mut trials = vec![harness::trial("cases::differences".to_owned(), {
        let names: Vec<String> = paths.iter().map(|path| name(path)).collect();
        move || sound(names)
    })];
    for backend in BACKENDS {
        let missing = missing(backend);
        for path in &paths {
            if backend != "wasi" && is_slim_only(path) {
                continue;
            }
            let case = path.clone();
            let trial = harness::trial(format!("cases::{backend}::{}", name(path)), move || async move {
                check(sandbox(backend), case, backend).await;
            });
            trials.push(match &missing {
                Some(reason) => trial.with_kind(reason).with_ignored_flag(true),
                None => trial,
            });
        }
    }
    for path in paths {
        if !is_slim_only(&path) {
            let name = format!("cases::{SCIENCE}::{}", name(&path));
            trials.push(harness::science_trial(name, move |sandbox| check(sandbox, path, SCIENCE)));
        }
    }
    trials
}

fn directory() -> PathBuf {
    gloveport_tests::repository().join("tests/cases")
}

fn name(path: &Path) -> String {
    path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

fn is_slim_only(path: &Path) -> bool {
    expected(&fs::read_to_string(path).expect("a case is UTF-8")).slim_only.is_some()
}

fn missing(backend: &str) -> Option<String> {
    match backend {
        "ssh" => engines::ssh_missing(),
        "docker" => engines::docker_missing(),
        "local" | "command" => (!engines::has("python3")).then(|| "no-python3".into()),
        _ => None,
    }
}

/// The sandbox of a backend that all its cases share, with the probe tools and nothing else.
fn sandbox(backend: &str) -> Sandbox {
    static REMOTES: [OnceLock<Sandbox>; 4] = [const { OnceLock::new() }; 4];
    match BACKENDS.iter().position(|known| *known == backend).expect("a known backend") {
        0 => harness::sandbox(),
        place => REMOTES[place - 1].get_or_init(|| remote(backend)).clone(),
    }
}

fn remote(backend: &str) -> Sandbox {
    let environment: Vec<(String, String)> =
        std::env::vars().filter(|(name, _)| ["PATH", "HOME", "PYENV_VERSION"].contains(&name.as_str())).collect();
    let made: RemoteBackend = match backend {
        "local" => {
            let options = local::LocalOptions { unsafe_no_isolation: true, ..Default::default() };
            local::backend(&options, environment).expect("the local backend")
        }
        "command" => {
            let options = command::CommandOptions { argv: vec!["/usr/bin/env".into()], ..Default::default() };
            command::backend(&options, environment).expect("the command backend")
        }
        "ssh" => engines::ssh_backend(),
        _ => engines::docker_backend(),
    };
    let mut config = Config::default();
    config.approval.mode = ApprovalMode::Off;
    Sandbox::builder()
        .config(config)
        .backend(Arc::new(made))
        .tools(probe_tools())
        .build()
        .expect("a sandbox on a remote backend")
}

/// `place` is a backend, or an image of the local one.
async fn check(sandbox: Sandbox, path: PathBuf, place: &'static str) {
    let code = fs::read_to_string(&path).expect("a case is UTF-8");
    let expected = expected(&code);
    let result = sandbox.execute(request(&code, &expected.options)).await;
    let json: serde_json::Value = serde_json::from_str(&result.to_json()).expect("a result is JSON");
    let status = expected.status.as_deref().unwrap_or("success");
    assert_eq!(json["status"], status, "{json}");
    assert_eq!(json["backend"], if place == SCIENCE { "wasi" } else { place }, "{json}");
    assert_eq!(json.get("kind").and_then(|kind| kind.as_str()), expected.kind.as_deref(), "{json}");
    if result.status == Status::Success || expected.exit_code.is_some() {
        assert_eq!(result.exit_code, Some(expected.exit_code.unwrap_or(0)), "{json}");
    }
    assert_eq!((result.tool_calls_made, result.refused_calls), (expected.made, expected.refused), "{json}");
    compare(&path, place, result.output.as_ref().map_or("", |output| output.as_str()));
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

fn compare(case: &Path, place: &str, output: &str) {
    let path = case.with_extension("out");
    let of_science = case.with_extension("science.out");
    let path = if place == SCIENCE && of_science.exists() { of_science } else { path };
    if std::env::var_os("GLOVEPORT_BLESS").is_some() {
        if place == "wasi" || path.to_string_lossy().ends_with(".science.out") {
            fs::write(path, output).expect("a blessed output");
        }
        return;
    }
    let expected = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let case = name(case);
    match differences().iter().find(|d| d.case == case && d.on.iter().any(|name| name == place)) {
        None => assert_eq!(output, expected),
        Some(difference) => {
            // Marks may happen to be the same: they depend on the remote's Python.
            let stale = output == expected && !difference.without_marks;
            assert!(!stale, "no difference any more; take it out of differences.json");
            let expected = difference.instead.iter().fold(expected, |text, (from, to)| text.replace(from, to));
            let plain = |text: &str| if difference.without_marks { without_marks(text) } else { text.to_owned() };
            assert_eq!(plain(output), plain(&expected), "differs in another way than: {}", difference.why);
        }
    }
}

fn differences() -> Vec<Difference> {
    let text = fs::read_to_string(directory().join("differences.json")).expect("differences.json");
    serde_json::from_str(&text).expect("differences.json is a list of differences")
}

/// A text without the lines that hold nothing but marks.
fn without_marks(text: &str) -> String {
    let is_marks = |line: &str| {
        let line = line.trim();
        !line.is_empty() && line.chars().all(|c| c == '~' || c == '^')
    };
    text.lines().filter(|line| !is_marks(line)).map(|line| format!("{line}\n")).collect()
}

/// Every listed difference is of a case and a backend that exist, says why, and says how.
async fn sound(cases: Vec<String>) {
    for difference in differences() {
        assert!(cases.contains(&difference.case), "no such case: {}", difference.case);
        assert!(!difference.why.trim().is_empty(), "{}: no reason", difference.case);
        assert!(!difference.instead.is_empty() || difference.without_marks, "{}: no difference", difference.case);
        for backend in &difference.on {
            assert!(backend != "wasi" && BACKENDS.contains(&backend.as_str()), "no other backend: {backend}");
        }
    }
}
