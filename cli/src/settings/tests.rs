#![expect(clippy::disallowed_methods, reason = "tests make files of their own")]

use gloveport::config::{BackendKind, Terminal, WorkspaceConfig};
use gloveport::job::Access;

use super::*;

struct Place {
    directory: tempfile::TempDir,
}

impl Place {
    fn new(files: &[(&str, &str)]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = directory.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        std::fs::create_dir_all(directory.path().join("project/deep")).unwrap();
        Self { directory }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn load(&self, variables: &[(&str, &str)]) -> Result<Settings, String> {
        let home = self.path("home").display().to_string();
        let variables = variables.iter().chain(&[("HOME", home.as_str())]).map(|(n, v)| (n.into(), v.into())).collect();
        let host = Host { environment: variables, cwd: self.path("project/deep") };
        // The directory's own name differs from run to run.
        load(None, &host).map_err(|error| error.to_string().replace(&self.path("").display().to_string(), ""))
    }
}

#[test]
fn later_layers_win_key_by_key() {
    let place = Place::new(&[
        (
            "home/.config/gloveport/gloveport.toml",
            "terminal = \"host\"\n[limits]\ntimeout = 1\nmax_tool_calls = 1\ndescriptors = 11\n",
        ),
        ("project/gloveport.toml", "[limits]\ntimeout = 2\nmax_tool_calls = 2\n"),
        ("gloveport.toml", "[limits]\ntimeout = 99\n"),
    ]);
    let settings =
        place.load(&[("GLOVEPORT_LIMITS_TIMEOUT", "3.5"), ("GLOVEPORT_TOOLS", "a, b"), ("OTHER", "x")]).unwrap();
    let limits = &settings.config.limits;
    assert_eq!((limits.timeout, limits.max_tool_calls, limits.descriptors), (3.5, 2, 11));
    assert_eq!(settings.config.terminal, Terminal::Host);
    assert_eq!(settings.config.tools, Some(vec!["a".to_owned(), "b".to_owned()]));
    assert_eq!(
        settings.files,
        [place.path("home/.config/gloveport/gloveport.toml"), place.path("project/gloveport.toml")]
    );
    assert_eq!(settings.sources[2..], ["GLOVEPORT_LIMITS_TIMEOUT", "GLOVEPORT_TOOLS"]);
}

#[test]
fn nothing_set_is_the_default() {
    let settings = Place::new(&[]).load(&[]).unwrap();
    assert_eq!(settings, Settings { config: Config::default(), sources: vec![], files: vec![] });
}

#[test]
fn a_named_file_takes_the_place_of_both() {
    let place = Place::new(&[("project/gloveport.toml", "broken"), ("project/deep/own.toml", "backend = \"local\"")]);
    let config = |name: &str| place.load(&[("GLOVEPORT_CONFIG", name)]).map(|settings| settings.config.backend);
    assert_eq!(config("own.toml"), Ok(BackendKind::Local));
    assert_eq!(config("none"), Ok(BackendKind::Wasi));
    assert_eq!(
        config("missing.toml"),
        Err("project/deep/missing.toml: can't be read: no such file or directory".to_owned())
    );
}

#[test]
fn mistakes_in_a_file_name_the_file_and_the_nearest_key() {
    let cases = [
        ("[limts]\ntimeout = 1", "unknown key `limts.timeout`; did you mean `limits.timeout`?"),
        ("timeout = 1", "unknown key `timeout`; did you mean `limits.timeout`?"),
        ("[limits]\ntime_out = 1", "unknown key `limits.time_out`; did you mean `limits.timeout`?"),
        ("[limits]\nmax_calls = 1", "unknown key `limits.max_calls`; did you mean `limits.max_tool_calls`?"),
        (
            "[web.providers.brave]\nkey = 'x'",
            "unknown key `web.providers.brave.key`; did you mean `web.providers.brave.url`?",
        ),
        ("[[tool]]\nname = 'x'\ncomand = []", "unknown key `tool.comand`; did you mean `tool.command`?"),
        ("zebra = 1", "unknown key `zebra`"),
        ("[limits]\ntimeout = '5'", "`limits.timeout`: invalid type: string \"5\", expected f64"),
        (
            "backend = 'wasm'",
            "`backend`: unknown variant `wasm`, expected one of `wasi`, `docker`, `ssh`, `local`, `command`",
        ),
        ("workspace = ':rw'\n", "`workspace`: the directory's name is empty"),
        ("[[tool]]\nname = 'x'", "`tool[0]`: missing field `description`"),
        ("a = \n", "line 1: string values must be quoted, expected literal string"),
        ("a = 1\na = 2", "line 2: duplicate key"),
    ];
    for (text, expected) in cases {
        let error = Place::new(&[("project/gloveport.toml", text)]).load(&[]).unwrap_err();
        assert_eq!(error, format!("project/gloveport.toml: {expected}"), "{text}");
    }
}

#[test]
fn mistakes_in_variables_name_the_variable() {
    let load = |name, value| Place::new(&[]).load(&[(name, value)]).unwrap_err();
    assert_eq!(
        load("GLOVEPORT_LIMTS_TIMEOUT", "1"),
        "unknown variable `GLOVEPORT_LIMTS_TIMEOUT`; did you mean `GLOVEPORT_LIMITS_TIMEOUT`?"
    );
    assert_eq!(
        load("GLOVEPORT_LIMITS_TIMEOUT", "soon"),
        "environment: `GLOVEPORT_LIMITS_TIMEOUT`: can't be read as a TOML value"
    );
    assert_eq!(
        load("GLOVEPORT_LIMITS_TIMEOUT", "\"5\""),
        "GLOVEPORT_LIMITS_TIMEOUT: `limits.timeout`: invalid type: string \"5\", expected f64"
    );
    assert_eq!(
        load("GLOVEPORT_LIMITS_TIMEOUT", "nan"),
        "`limits.timeout`: NaN is not a number of seconds above 0 and at most 86400"
    );
}

#[test]
fn relative_paths_count_from_the_file() {
    let text = "workspace = '../data:rw'\n[output]\nspill = 'out'\n[[tool]]\nname = 'x'\ndescription = 'y'\ncommand = ['./bin/x', './y']\n\
                [[tool]]\nname = 'z'\ndescription = 'y'\ncommand = ['jq']\n";
    let place = Place::new(&[("project/gloveport.toml", text)]);
    let config = place.load(&[]).unwrap().config;
    let expected = WorkspaceConfig::Directory { path: place.path("project/../data"), access: Access::ReadWrite };
    assert_eq!(config.workspace, Some(expected));
    assert_eq!(config.output.spill, Some(place.path("project/out")));
    assert_eq!(config.custom_tools[0].command, [place.path("project/./bin/x").display().to_string(), "./y".to_owned()]);
    assert_eq!(config.custom_tools[1].command, ["jq"]);
    let none = Place::new(&[("project/gloveport.toml", "workspace = 'none'")]).load(&[]).unwrap();
    assert_eq!(none.config.workspace, Some(WorkspaceConfig::None));
}

#[test]
fn properties_of_a_tool_keep_their_order() {
    let text = "[[tool]]\nname = 'x'\ndescription = 'y'\ncommand = ['c']\n[tool.schema]\ntype = 'object'\n\
                properties = { word = {}, language = {}, a = {} }\n";
    let config = Place::new(&[("project/gloveport.toml", text)]).load(&[]).unwrap().config;
    let names: Vec<_> = config.custom_tools[0].schema["properties"].as_object().unwrap().keys().cloned().collect();
    assert_eq!(names, ["word", "language", "a"]);
}

#[cfg(unix)]
#[test]
fn a_file_that_anybody_can_write_is_refused() {
    use std::os::unix::fs::PermissionsExt;
    let place = Place::new(&[("project/gloveport.toml", "")]);
    std::fs::set_permissions(place.path("project/gloveport.toml"), PermissionsExt::from_mode(0o666)).unwrap();
    assert_eq!(place.load(&[]).unwrap_err(), "project/gloveport.toml: is refused: anybody can write it (chmod o-w)");
}

#[test]
fn what_is_no_file_is_reported() {
    let place = Place::new(&[("project/gloveport.toml/x", "")]);
    assert_eq!(place.load(&[]).unwrap_err(), "project/gloveport.toml: is not a regular file");
}
