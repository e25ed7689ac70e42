//! Configuration: plain data with its defaults, and nothing that acts.
//!
//! A [`Config`] comes from a file, from the environment or from code; [`crate::policy`] resolves it once. What data can't hold (tools, a
//! backend, an approver) goes to the builder. Unknown keys are refused everywhere, and [`Config::json_schema`] lists the known ones. `Config::default()`
//! grants nothing: no workspace, no terminal, no web, no variable passed through.

mod check;
mod image;
mod remotes;
mod secret;
mod sections;
mod tools;

use std::fmt;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::backend::Isolation;
use crate::job::{Access, Mode};

pub use check::ConfigError;
pub(crate) use check::is_python_name;
pub use image::{ImageChoice, NoImage, SLIM};
pub use remotes::{CommandConfig, DockerConfig, LocalConfig, SshConfig};
pub use secret::Secret;
pub use sections::{
    ApprovalConfig, EnvConfig, ExtractProvider, Limits, OutputConfig, ProviderConfig, RedactionConfig, SearchProvider,
    ToolApproval, WebConfig, WebProviders,
};
pub use tools::CustomTool;

/// Module that scripts import tools from, unless configured otherwise.
pub const DEFAULT_MODULE: &str = "hermes_tools";
/// Longest time limit that configuration may allow: one day.
pub const LONGEST_TIMEOUT: f64 = 86_400.0;

/// Everything that can be configured with data.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// What runs scripts: `wasi`, `docker`, `ssh`, `local` or `command`.
    pub backend: BackendKind,
    /// Image that the local backend runs: `slim`, the name of another one (`gloveport image list`), the path of its directory, or `auto`, which
    /// takes the first that has what a script imports.
    #[schemars(with = "String")]
    pub image: ImageChoice,
    /// Weakest isolation level that is accepted: `none`, `account`, `container`, `wasm` or `wasm+process`. A backend below it is refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub isolation_floor: Option<Isolation>,
    /// Directory that scripts and tools may see: `none`, `DIR`, `DIR:ro` or `DIR:rw`. Absent: whatever the program's default is, for the library none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workspace: Option<WorkspaceConfig>,
    /// Where scripts start: `project` in the workspace, `strict` in an empty private directory.
    #[schemars(with = "String")]
    pub mode: Mode,
    /// Name of the Python module that holds the tools.
    pub module: String,
    /// Tools that are offered, by name. Absent: all that are registered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<String>>,
    /// Where the `terminal` tool runs commands: `off`, `confined` or `host`.
    pub terminal: Terminal,
    /// IANA time zone of scripts that ask for none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timezone: Option<String>,
    /// Limits on a run.
    pub limits: Limits,
    /// The script's environment variables.
    pub env: EnvConfig,
    /// What is masked in everything that leaves a run.
    pub redaction: RedactionConfig,
    /// How much of the output is kept.
    pub output: OutputConfig,
    /// Who is asked before something with effects happens.
    pub approval: ApprovalConfig,
    /// Providers of the web tools.
    pub web: WebConfig,
    /// The docker backend.
    pub docker: DockerConfig,
    /// The ssh backend.
    pub ssh: SshConfig,
    /// The local backend.
    pub local: LocalConfig,
    /// The command backend.
    pub command: CommandConfig,
    /// Tools that are commands: `[[tool]]`.
    #[serde(rename = "tool", skip_serializing_if = "Vec::is_empty")]
    pub custom_tools: Vec<CustomTool>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            backend: BackendKind::Wasi,
            image: ImageChoice::default(),
            isolation_floor: None,
            workspace: None,
            mode: Mode::Project,
            module: DEFAULT_MODULE.to_owned(),
            tools: None,
            terminal: Terminal::Off,
            timezone: None,
            limits: Limits::default(),
            env: EnvConfig::default(),
            redaction: RedactionConfig::default(),
            output: OutputConfig::default(),
            approval: ApprovalConfig::default(),
            web: WebConfig::default(),
            docker: DockerConfig::default(),
            ssh: SshConfig::default(),
            local: LocalConfig::default(),
            command: CommandConfig::default(),
            custom_tools: Vec::new(),
        }
    }
}

impl Config {
    /// The JSON schema of the configuration, for editors and for naming the nearest key of a misspelled one.
    pub fn json_schema() -> serde_json::Value {
        let settings = schemars::generate::SchemaSettings::draft2020_12().with(|s| s.inline_subschemas = true);
        settings.into_generator().into_root_schema_for::<Self>().to_value()
    }

    /// Checks what types alone can't say: ranges, names, and values that exclude one another.
    pub fn check(&self) -> Result<(), ConfigError> {
        check::check(self)
    }
}

/// The backends that exist, whether or not this build carries them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BackendKind {
    /// CPython on WASI inside this process.
    #[default]
    Wasi,
    /// A container.
    Docker,
    /// Another account or host.
    Ssh,
    /// A plain child process: isolates nothing.
    Local,
    /// Wherever a configured command line leads.
    Command,
}

impl BackendKind {
    /// The name that results and configuration use.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Wasi => "wasi",
            Self::Docker => "docker",
            Self::Ssh => "ssh",
            Self::Local => "local",
            Self::Command => "command",
        }
    }
}

impl fmt::Display for BackendKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Where the `terminal` tool runs commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Terminal {
    /// Nowhere: the tool is not offered.
    #[default]
    Off,
    /// On this machine, held to the workspace by the kernel.
    Confined,
    /// On this machine, with the user's rights.
    Host,
}

/// The granted directory, written as one text: `none`, `DIR`, `DIR:ro` or `DIR:rw`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WorkspaceConfig {
    /// Nothing is granted.
    None,
    /// A directory of this machine.
    Directory {
        /// Where it is; a relative path is resolved by whoever read the configuration.
        path: PathBuf,
        /// What may be done there.
        access: Access,
    },
}

impl WorkspaceConfig {
    /// Reads the text form. Without a suffix a directory is read-only; a directory that is called `none` is written `./none`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (path, access) = match text.rsplit_once(':') {
            Some((path, "ro")) => (path, Access::ReadOnly),
            Some((path, "rw")) => (path, Access::ReadWrite),
            _ => (text, Access::ReadOnly),
        };
        match path {
            "" => Err("the directory's name is empty".to_owned()),
            "none" if text == "none" => Ok(Self::None),
            _ if path.contains('\0') => Err("the directory's name contains a NUL character".to_owned()),
            _ => Ok(Self::Directory { path: PathBuf::from(path), access }),
        }
    }
}

impl fmt::Display for WorkspaceConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::Directory { path, access: Access::ReadOnly } => write!(f, "{}:ro", path.display()),
            Self::Directory { path, access: Access::ReadWrite } => write!(f, "{}:rw", path.display()),
        }
    }
}

impl Serialize for WorkspaceConfig {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for WorkspaceConfig {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for WorkspaceConfig {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Workspace".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "string" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_grants_nothing() {
        let config = Config::default();
        assert_eq!(config.workspace, None);
        assert_eq!(config.terminal, Terminal::Off);
        assert!(config.env.pass.is_empty() && config.custom_tools.is_empty());
        assert_eq!((config.web.search, config.web.extract), (SearchProvider::None, ExtractProvider::None));
        assert_eq!(config.check(), Ok(()));
    }

    #[test]
    fn an_empty_document_is_the_default() {
        assert_eq!(serde_json::from_str::<Config>("{}").unwrap(), Config::default());
    }

    #[test]
    fn unknown_keys_are_refused_at_every_level() {
        for text in [
            r#"{"sandbox": 1}"#,
            r#"{"limits": {"time": 1}}"#,
            r#"{"docker": {"privileged": true}}"#,
            r#"{"docker": {"mounts": []}}"#,
            r#"{"ssh": {"options": []}}"#,
            r#"{"local": {"no_isolation": true}}"#,
            r#"{"command": {"env_all": true}}"#,
            r#"{"web": {"providers": {"brave": {"secret": "x"}}}}"#,
            r#"{"tool": [{"name": "a", "description": "b", "command": ["c"], "shell": true}]}"#,
        ] {
            let error = serde_json::from_str::<Config>(text).unwrap_err().to_string();
            assert!(error.starts_with("unknown field"), "{text}: {error}");
        }
    }

    #[test]
    fn workspace_text_forms() {
        let directory = |path: &str, access| Ok(WorkspaceConfig::Directory { path: path.into(), access });
        let cases = [
            ("none", Ok(WorkspaceConfig::None)),
            ("./none", directory("./none", Access::ReadOnly)),
            (".", directory(".", Access::ReadOnly)),
            ("/a b:ro", directory("/a b", Access::ReadOnly)),
            ("/a:b:rw", directory("/a:b", Access::ReadWrite)),
            (r"C:\work", directory(r"C:\work", Access::ReadOnly)),
            ("none:rw", directory("none", Access::ReadWrite)),
            ("", Err("the directory's name is empty".to_owned())),
            (":rw", Err("the directory's name is empty".to_owned())),
            ("a\0b", Err("the directory's name contains a NUL character".to_owned())),
        ];
        for (text, expected) in cases {
            assert_eq!(WorkspaceConfig::parse(text), expected, "{text}");
        }
    }

    #[test]
    fn serialized_configuration_reads_back() {
        let mut config = Config { timezone: Some("Europe/Berlin".into()), ..Config::default() };
        config.workspace = Some(WorkspaceConfig::Directory { path: "/w".into(), access: Access::ReadWrite });
        let text = serde_json::to_string(&config).unwrap();
        assert_eq!(serde_json::from_str::<Config>(&text).unwrap(), config);
    }
}
