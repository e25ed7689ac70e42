use secrecy::ExposeSecret as _;

use super::*;

fn vars(pairs: &[(&str, &str)]) -> Vec<(OsString, OsString)> {
    pairs.iter().map(|(name, value)| (OsString::from(name), OsString::from(value))).collect()
}

fn looks_secret(value: &str) -> bool {
    value.starts_with("canary_")
}

fn scrub_as(profile: Profile, environment: &[(&str, &str)], pass: &[&str]) -> Scrubbed {
    let pass: Vec<String> = pass.iter().map(|&name| name.to_owned()).collect();
    scrub(&vars(environment), &pass, profile, Platform::Unix, &looks_secret)
}

fn local(environment: &[(&str, &str)]) -> Scrubbed {
    scrub_as(Profile::Local, environment, &[])
}

fn passed(scrubbed: &Scrubbed) -> Vec<&str> {
    scrubbed.passed.iter().map(|variable| variable.name.as_str()).collect()
}

fn secrets(scrubbed: &Scrubbed) -> Vec<(&str, &str)> {
    scrubbed.secrets.iter().map(|(name, value)| (name.as_str(), value.expose_secret())).collect()
}

/// All variables are dropped for this reason.
#[track_caller]
fn assert_dropped(environment: &[(&str, &str)], reason: Reason) {
    let scrubbed = local(environment);
    let expected: Vec<_> = environment.iter().map(|(name, _)| ((*name).to_owned(), reason)).collect();
    assert_eq!(scrubbed.dropped, expected);
    assert_eq!(passed(&scrubbed), [""; 0]);
}

#[test]
fn n1_a_wasi_script_gets_no_path_and_no_shell_name() {
    let environment = [
        ("PATH", "/bin"),
        ("HOME", "/root"),
        ("SHELL", "/bin/sh"),
        ("TERM", "xterm"),
        ("TMPDIR", "/tmp"),
        ("XDG_CACHE_HOME", "/c"),
        ("VIRTUAL_ENV", "/v"),
        ("PYTHONPATH", "/p"),
        ("HERMES_HOME", "/h"),
        ("LANG", "C.UTF-8"),
        ("LC_ALL", "C"),
        ("USER", "u"),
        ("HERMES_PROFILE", "p"),
        ("EDITOR", "vi"),
    ];
    let mut wasi = scrub_as(Profile::Wasi, &environment, &[]);
    assert_eq!(passed(&wasi), ["LANG", "LC_ALL", "USER", "HERMES_PROFILE"]);
    assert_eq!(passed(&scrub_as(Profile::Remote, &environment, &[])), passed(&wasi));
    assert_eq!(passed(&local(&environment)).len(), environment.len() - 1);
    set_ours(&mut wasi, None, Profile::Wasi);
    let ours: Vec<_> = wasi.pairs().split_off(4);
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    assert_eq!(
        ours,
        [
            pair("PYTHONIOENCODING", "utf-8"),
            pair("PYTHONUTF8", "1"),
            pair("PYTHONDONTWRITEBYTECODE", "1"),
            pair("HOME", "/tmp")
        ]
    );
}

#[test]
fn n2_names_that_speak_of_secrets_never_pass() {
    let words = [
        "KEY",
        "TOKEN",
        "SECRET",
        "PASS",
        "PWD",
        "CREDENTIAL",
        "AUTH",
        "DSN",
        "WEBHOOK",
        "COOKIE",
        "SESSION",
        "PRIVATE",
        "CERT",
        "CONN",
        "DATABASE_URL",
        "AWS_ACCESS_ID",
        "PASSWORD",
        "PASSWD",
        "CREDS",
        "BEARER",
        "REDIS_URL",
        "MY_POSTGRES_URI",
    ];
    for word in words {
        let mixed: String =
            word.char_indices().map(|(i, c)| if i % 2 == 0 { c.to_ascii_lowercase() } else { c }).collect();
        for name in [word.to_owned(), word.to_ascii_lowercase(), mixed, format!("XDG_{word}_DIR"), format!("MY{word}")]
        {
            // `XDG_DATABASE_URL_DIR` ends in neither URL nor URI; the list does not hold it anyway.
            let scrubbed = local(&[(&name, "x")]);
            assert_eq!(passed(&scrubbed), [""; 0], "{name}");
        }
        assert_dropped(&[(word, "x"), (&word.to_ascii_lowercase(), "x")], Reason::SecretName);
    }
}

#[test]
fn no_listed_name_is_taken_for_a_secret() {
    for (name, _) in names::LISTED {
        assert!(!names::may_be_secret(name) && !names::holds_secret(name) && !is_ours(name), "{name}");
    }
}

#[test]
fn n3_a_listed_name_as_a_prefix_lets_nothing_pass() {
    let traps = [
        "PATHTOKEN",
        "HOMEBREW_GITHUB_API",
        "LC_SECRET",
        "TERM_PASS",
        "USER_PIN",
        "XDG_KEY",
        "LC_",
        "LC_FOO",
        "XDG_",
        "CONDA_FOO",
        "HERMES_HOMES",
        "HERMES_API",
        "path",
        "Home",
        "LANGUAGES",
        " PATH",
        "PATH ",
    ];
    for name in traps {
        assert_eq!(passed(&local(&[(name, "x")])), [""; 0], "{name}");
    }
}

#[test]
fn n5_loader_and_interpreter_variables_are_dropped() {
    let environment = [
        ("LD_PRELOAD", "/x.so"),
        ("PYTHONSTARTUP", "/x"),
        ("PYTHONHOME", "/x"),
        ("BASH_ENV", "/x"),
        ("ENV", "/x"),
        ("IFS", "x"),
        ("GIT_DIR", "/x"),
        ("DOCKER_HOST", "tcp://x"),
        ("LD_LIBRARY_PATH", "/x"),
        ("NODE_OPTIONS", "x"),
        ("PERL5LIB", "/x"),
    ];
    assert_dropped(&environment, Reason::NotListed);
    assert_dropped(&[("SSH_AUTH_SOCK", "/tmp/agent")], Reason::SecretName);
    assert_eq!(passed(&scrub_as(Profile::Wasi, &[("PYTHONPATH", "/x")], &[])), [""; 0]);
}

#[test]
fn n6_a_secret_passes_only_by_exact_name_and_its_value_is_masked() {
    let environment = [("STRIPE_API_KEY", "value-1"), ("STRIPE_API_KEY_2", "value-2"), ("stripe_api_key", "value-3")];
    let scrubbed = scrub_as(Profile::Wasi, &environment, &["STRIPE_API_KEY"]);
    assert_eq!(
        scrubbed.passed,
        [Variable { name: "STRIPE_API_KEY".into(), value: "value-1".into(), origin: Origin::PassedThrough }]
    );
    let withheld = ("STRIPE_API_KEY_2", "value-2");
    assert_eq!(secrets(&scrubbed), [("STRIPE_API_KEY", "value-1"), withheld, ("stripe_api_key", "value-3")]);
}

#[test]
fn n7_what_no_process_can_be_given_is_dropped() {
    let long = "x".repeat(128 << 10);
    assert_dropped(&[("", "x"), ("A=B", "x"), ("A\0", "x")], Reason::BadName);
    assert_dropped(&[("LANG", "a\0b")], Reason::NotText);
    assert_dropped(&[("LANG", &long)], Reason::TooLong);
    assert_dropped(&[("LANG", "a\nb"), ("USER", "a=b"), ("PATH", "a\rb")], Reason::OddValue);
    // Asked for by name, odd characters are the value's own business; what can't be carried still isn't.
    let scrubbed = scrub_as(Profile::Wasi, &[("PEM", "a\nb=="), ("BIG", &long)], &["PEM", "BIG"]);
    assert_eq!(passed(&scrubbed), ["PEM"]);
}

#[cfg(unix)]
#[test]
fn n7_bytes_that_are_not_utf8_are_dropped() {
    use std::os::unix::ffi::OsStringExt as _;
    let bad = || OsString::from_vec(vec![b'a', 0xff]);
    let scrubbed = scrub(
        &[(OsString::from("LANG"), bad()), (bad(), OsString::from("canary_x"))],
        &["LANG".to_owned()],
        Profile::Local,
        Platform::Unix,
        &looks_secret,
    );
    assert_eq!(scrubbed.dropped, [("LANG".to_owned(), Reason::NotText), ("a\u{fffd}".to_owned(), Reason::BadName)]);
    assert_eq!(secrets(&scrubbed), [("a\u{fffd}", "canary_x")]);
}

#[test]
fn a_secret_under_a_harmless_name_is_dropped_with_a_warning_that_names_only_the_variable() {
    let scrubbed =
        scrub_as(Profile::Wasi, &[("LANG", "canary_1"), ("TMPDIR", "canary_2"), ("EDITOR", "canary_3")], &[]);
    assert_eq!(
        scrubbed.dropped,
        [
            ("LANG".to_owned(), Reason::SecretValue),
            ("TMPDIR".to_owned(), Reason::SecretValue),
            ("EDITOR".to_owned(), Reason::NotListed)
        ]
    );
    assert_eq!(
        scrubbed.warnings,
        [
            "\"LANG\" is not passed to scripts: its value looks like a secret.",
            "\"TMPDIR\" is not passed to scripts: its value looks like a secret."
        ]
    );
    assert_eq!(secrets(&scrubbed), [("LANG", "canary_1"), ("TMPDIR", "canary_2"), ("EDITOR", "canary_3")]);
}

#[test]
fn provider_credentials_are_refused_even_on_request() {
    let wanted = [
        "OPENAI_API_KEY",
        "OPENAI_BASE_URL",
        "ANTHROPIC_TOKEN",
        "GOOGLE_API_KEY",
        "GH_TOKEN",
        "AWS_BEARER_TOKEN_BEDROCK",
    ];
    let environment: Vec<_> = wanted.iter().map(|name| (*name, "some-value")).collect();
    let scrubbed = scrub_as(Profile::Local, &environment, &wanted);
    assert_eq!(passed(&scrubbed), [""; 0]);
    assert!(scrubbed.dropped.iter().all(|(_, reason)| *reason == Reason::ProviderCredential));
    assert_eq!(scrubbed.secrets.len(), wanted.len());
    assert_eq!(scrubbed.warnings[4], "\"GH_TOKEN\" is a provider's credential and is not passed through.");
}

#[test]
fn values_of_names_that_only_sound_secret_are_not_masked() {
    let scrubbed = local(&[
        ("PWD", "/home/me"),
        ("GIT_AUTHOR_NAME", "Ada Lovelace"),
        ("KEYBOARD_LAYOUT", "neo"),
        ("TOKENIZERS_PARALLELISM", "false"),
        ("SSH_AUTH_SOCK", "/run/agent"),
        ("GITHUB_TOKEN_FILE", "/run/secrets/gh"),
        ("XDG_SESSION_TYPE", "wayland"),
        ("DESKTOP_SESSION", "plasma"),
        ("SSL_CERT_FILE", "/etc/ssl/ca.pem"),
        ("SSH_CONNECTION", "10.0.0.1 22"),
    ]);
    assert_eq!(secrets(&scrubbed), [("", ""); 0]);
    assert_eq!(passed(&scrubbed), [""; 0]);
}

#[test]
fn passwords_inside_addresses_are_masked() {
    let scrubbed = local(&[
        ("HTTPS_PROXY", "http://me:hunter22@proxy:8080/x@y"),
        ("DATABASE_URL", "postgres://app:p%40ss:w@db/app"),
        ("HOMEPAGE", "https://example.com/a:b@c"),
        ("NOTE", "a://b"),
        ("ODD", "not a scheme://u:p@h"),
    ]);
    assert_eq!(secrets(&scrubbed), [("HTTPS_PROXY", "hunter22"), ("DATABASE_URL", "p%40ss:w")]);
}

#[test]
fn what_gloveport_sets_can_not_be_passed_through() {
    let mut scrubbed =
        scrub_as(Profile::Local, &[("TZ", "$(id)"), ("PYTHONUTF8", "0"), ("HOME", "/host")], &["TZ", "PYTHONUTF8"]);
    assert_eq!(passed(&scrubbed), ["HOME"]);
    set_ours(&mut scrubbed, Some(Path::new("/profile")), Profile::Local);
    let home = scrubbed.passed.iter().find(|variable| variable.name == "HOME").unwrap();
    assert_eq!((home.value.as_str(), home.origin), ("/profile", Origin::Ours));
    assert_eq!(scrubbed.passed.len(), 4);
}

#[test]
fn windows_names_ignore_case_and_the_system_gets_what_it_needs() {
    let environment = vars(&[("Path", r"C:\bin"), ("SystemRoot", r"C:\Windows"), ("My_Key", "x")]);
    let on = |platform| scrub(&environment, &[], Profile::Local, platform, &looks_secret);
    assert_eq!(passed(&on(Platform::Windows)), ["Path", "SystemRoot"]);
    assert_eq!(passed(&on(Platform::Unix)), [""; 0]);
}

#[test]
fn repeated_and_missing_names() {
    let scrubbed = scrub_as(Profile::Wasi, &[("LANG", "a"), ("LANG", "b")], &["NOT_THERE"]);
    assert_eq!(scrubbed.pairs(), [("LANG".to_owned(), "a".to_owned())]);
    assert_eq!(scrubbed.dropped, [("LANG".to_owned(), Reason::Repeated)]);
    assert_eq!(scrubbed.missing, ["NOT_THERE"]);
}

#[test]
fn dropped_hermes_variables_are_counted() {
    let scrubbed = local(&[("HERMES_HOME", "/h"), ("HERMES_MODEL", "m"), ("HERMES_API_KEY", "k")]);
    assert_eq!(
        scrubbed.hermes_note().unwrap(),
        "2 HERMES_* variables were not passed to the script; name them in `env.pass` if it needs them"
    );
    assert_eq!(local(&[]).hermes_note(), None);
}

#[test]
fn debug_shows_no_value() {
    let scrubbed = scrub_as(Profile::Wasi, &[("LANG", "value-a"), ("MY_KEY", "value-b")], &["MY_KEY"]);
    let text = format!("{scrubbed:?}");
    assert!(text.contains("MY_KEY") && !text.contains("value-"), "{text}");
}

#[test]
fn python_prefix_prefers_the_virtual_environment() {
    assert_eq!(python_prefix(&vars(&[("CONDA_PREFIX", "/c"), ("VIRTUAL_ENV", "/v")])), Some(PathBuf::from("/v")));
    assert_eq!(python_prefix(&vars(&[("CONDA_PREFIX", "/c"), ("VIRTUAL_ENV", "v")])), Some(PathBuf::from("/c")));
    assert_eq!(python_prefix(&vars(&[])), None);
}
