use std::ffi::OsString;

use super::*;
use crate::backend::Isolation;

const TOOLS: [&str; 3] = ["read_file", "search_files", "write_file"];

fn capabilities() -> Capabilities {
    Capabilities {
        isolation: Isolation::Wasm,
        memory: true,
        disk: true,
        processes: true,
        network_denied: true,
        files_confined: true,
        needs_approval: false,
    }
}

fn build(
    config: &Config,
    capabilities: Capabilities,
    environment: &[(&str, &str)],
) -> Result<Policy, PolicyBuildError> {
    let environment: Vec<_> = environment.iter().map(|(n, v)| (OsString::from(n), OsString::from(v))).collect();
    Policy::new(
        config,
        &Facts {
            environment: &environment,
            tools: &TOOLS.map(str::to_owned),
            backend: "wasi",
            capabilities,
            platform: Platform::Unix,
            looks_secret: &|_| false,
        },
    )
}

fn policy(config: &Config) -> Policy {
    build(config, capabilities(), &[("LANG", "C"), ("MY_TOKEN", "withheld-value")]).unwrap()
}

fn resolve(request: &Request) -> Result<Resolved, PolicyError> {
    policy(&Config::default()).resolve(request)
}

fn refusal(request: &Request) -> String {
    resolve(request).unwrap_err().to_string()
}

#[test]
fn defaults() {
    let resolved = resolve(&Request::new("print()")).unwrap();
    assert_eq!(resolved.limits.timeout, Duration::from_secs(300));
    assert_eq!((resolved.limits.memory, resolved.limits.descriptors), (512 << 20, 64));
    assert_eq!((resolved.max_tool_calls, resolved.mode, resolved.timezone), (50, Mode::Project, None));
    assert_eq!((resolved.task_id.as_str(), resolved.filename.as_str()), ("default", "script.py"));
    assert_eq!(resolved.tools, TOOLS);
    assert_eq!(resolved.warnings, [""; 0]);
    let names: Vec<_> = resolved.env.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["LANG", "PYTHONIOENCODING", "PYTHONUTF8", "PYTHONDONTWRITEBYTECODE", "HOME"]);
}

#[test]
fn r29_blank_code_is_no_code() {
    for code in ["", " ", "\n\t\r\n", "\u{feff}", "\u{feff} \n", "\x1c\u{a0}\u{2028}"] {
        assert_eq!(resolve(&Request::new(code)).unwrap_err(), PolicyError::NoCode, "{code:?}");
    }
    assert_eq!(PolicyError::NoCode.to_string(), "No code provided.");
}

#[test]
fn r29_code_that_can_not_run_is_refused_and_odd_code_is_passed_on_as_it_is() {
    assert_eq!(refusal(&Request::new("a\nb\0c")), "The code contains a NUL character (line 2).");
    let limit = "#".repeat(MAX_CODE_BYTES);
    assert!(resolve(&Request::new(limit.clone())).is_ok());
    assert_eq!(refusal(&Request::new(limit + "#")), "The code is too large: 1048577 bytes, the limit is 1048576.");
    for code in ["print()\r\n\tx", "# coding: latin-1\nprint('é')", "# only a comment", "x\u{feff}"] {
        assert_eq!(&*resolve(&Request::new(code)).unwrap().code, code);
    }
    assert_eq!(&*resolve(&Request::new("\u{feff}\u{feff}x\r\n")).unwrap().code, "\u{feff}x\r\n");
}

#[test]
fn time_limits() {
    for (given, shown) in [
        (0.0, "0"),
        (-1.0, "-1"),
        (f64::NAN, "NaN"),
        (f64::INFINITY, "inf"),
        (f64::NEG_INFINITY, "-inf"),
        (86_400.5, "86400.5"),
        (f64::MAX, "1.7976931348623157e308"),
    ] {
        assert_eq!(
            refusal(&Request::new("x").timeout_secs(given)),
            format!("Invalid timeout: {shown}. It has to be a number of seconds above 0 and at most 86400.")
        );
    }
    let limit = |seconds| resolve(&Request::new("x").timeout_secs(seconds)).unwrap().limits.timeout;
    assert_eq!(limit(1.5), Duration::from_millis(1500));
    assert_eq!(limit(1e-300), Duration::from_millis(1));
    assert_eq!(limit(86_400.0), Duration::from_secs(86_400));
}

#[test]
fn p9_enabled_tools_have_three_states() {
    let enabled = |names: &[&str]| resolve(&Request::new("x").enabled_tools(names.to_vec())).unwrap();
    assert_eq!(resolve(&Request::new("x")).unwrap().tools, TOOLS);
    assert_eq!(enabled(&[]).tools, [""; 0]);
    let some = enabled(&["write_file", "read_file", "write_file"]);
    assert_eq!((some.tools, some.warnings), (vec!["read_file".to_owned(), "write_file".to_owned()], vec![]));
}

#[test]
fn p7_unknown_tool_names_are_ignored_with_a_warning() {
    let request = Request::new("x").enabled_tools(["read_file", "Read_File", "read_file ", "reаd_file"]);
    let resolved = resolve(&request).unwrap();
    assert_eq!(resolved.tools, ["read_file"]);
    assert_eq!(
        resolved.warnings,
        [
            "Unknown tools are ignored: \"Read_File\", \"read_file \", \"reаd_file\". Available: read_file, search_files, write_file."
        ]
    );
    let many: Vec<String> = (0..1000).map(|i| format!("tool{i}")).collect();
    let resolved = resolve(&Request::new("x").enabled_tools(many)).unwrap();
    assert_eq!(resolved.tools, [""; 0]);
    assert!(resolved.warnings[0].contains("\"tool4\" and 995 more. Available:"), "{}", resolved.warnings[0]);
}

#[test]
fn configured_tools_are_the_most_that_a_run_can_enable() {
    let config = Config { tools: Some(vec!["read_file".into(), "fly".into()]), ..Config::default() };
    let policy = policy(&config);
    assert_eq!(policy.offered(), ["read_file"]);
    assert_eq!(
        policy.warnings(),
        ["Unknown tools are ignored: \"fly\". Available: read_file, search_files, write_file."]
    );
    assert_eq!(policy.resolve(&Request::new("x").enabled_tools(TOOLS)).unwrap().tools, ["read_file"]);
    assert_eq!(policy.resolve(&Request::new("x")).unwrap().tools, ["read_file"]);
}

#[test]
fn mode_is_read_leniently() {
    let mode = |text: &str| {
        let resolved = resolve(&Request::new("x").mode(text)).unwrap();
        (resolved.mode, resolved.warnings)
    };
    assert_eq!(mode(" STRICT\n"), (Mode::Strict, vec![]));
    assert_eq!(mode("Project"), (Mode::Project, vec![]));
    assert_eq!(mode("open"), (Mode::Project, vec!["Unknown mode \"open\" is taken as project.".into()]));
}

#[test]
fn timezone_becomes_tz_and_nothing_else() {
    let resolved = resolve(&Request::new("x").timezone("europe/berlin")).unwrap();
    assert_eq!(resolved.timezone.as_deref(), Some("Europe/Berlin"));
    assert_eq!(resolved.env.last(), Some(&("TZ".to_owned(), "Europe/Berlin".to_owned())));
    assert_eq!(
        refusal(&Request::new("x").timezone("$(id)")),
        "Invalid timezone: \"$(id)\" is not an IANA time zone name such as Europe/Berlin."
    );
    let configured = Config { timezone: Some("Asia/Tokyo".into()), ..Config::default() };
    assert_eq!(policy(&configured).resolve(&Request::new("x")).unwrap().timezone.as_deref(), Some("Asia/Tokyo"));
    let broken = Config { timezone: Some("x".into()), ..Config::default() };
    assert_eq!(
        build(&broken, capabilities(), &[]).unwrap_err().to_string(),
        "`timezone`: \"x\" is not an IANA time zone name such as Europe/Berlin"
    );
}

#[test]
fn arguments_and_file_name() {
    assert_eq!(refusal(&Request::new("x").args(["a", "b\0"])), "Argument 2 contains a NUL character.");
    assert_eq!(
        refusal(&Request::new("x").args(["a".repeat(200_000)])),
        "The arguments are too large: 200001 bytes, the limit is 131072."
    );
    let name = |text: &str| resolve(&Request::new("x").filename(text)).unwrap().filename;
    assert_eq!(name("dir/a b.py"), "dir/a b.py");
    assert_eq!(name("a\x1b[31m\n\0.py"), "a?[31m??.py");
    assert_eq!(name(" "), "script.py");
}

#[test]
fn withheld_and_configured_values_are_secrets() {
    let config: Config = serde_json::from_value(serde_json::json!({
        "redaction": {"values": ["configured-value"]},
        "web": {"providers": {"brave": {"api_key": "brave-value"}}},
    }))
    .unwrap();
    let policy = policy(&config);
    let names: Vec<_> = policy.secrets().iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["MY_TOKEN", "redaction.values", "BRAVE_API_KEY"]);
}

#[test]
fn a_backend_that_can_not_do_what_is_asked_is_refused_before_the_run() {
    let weak = Capabilities { isolation: Isolation::None, memory: false, disk: false, ..capabilities() };
    let build = |json: serde_json::Value| build(&serde_json::from_value(json).unwrap(), weak, &[]).map(|_| ());
    assert_eq!(build(serde_json::json!({})), Ok(()));
    assert_eq!(
        build(serde_json::json!({"isolation_floor": "container"})).unwrap_err().to_string(),
        "backend `wasi` reaches isolation level `none`, but `isolation_floor` asks for at least `container`"
    );
    assert_eq!(
        build(serde_json::json!({"limits": {"memory": 256}})).unwrap_err().to_string(),
        "backend `wasi` can't enforce `limits.memory`; remove it from the configuration or choose another backend"
    );
}
