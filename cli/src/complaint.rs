//! What went wrong before or around a run: one sentence, an exit code, and the contract's error object for `--json`.

use gloveport::BuildError;
use gloveport::config::{BackendKind, ConfigError};
use gloveport::output::Clean;
use serde_json::{Value, json};

use crate::exit::Exit;
use crate::settings::SettingsError;
use crate::source::SourceError;
use crate::terminal;

/// A command that could not do its work.
#[derive(Debug)]
pub(crate) struct Complaint {
    pub(crate) exit: Exit,
    kind: &'static str,
    text: String,
}

impl Complaint {
    /// What was typed or configured can't be used.
    pub(crate) fn usage(text: impl Into<String>) -> Self {
        Self { exit: Exit::Usage, kind: "protocol", text: text.into() }
    }

    /// The program can't do its work here.
    pub(crate) fn setup(text: impl Into<String>) -> Self {
        Self { exit: Exit::Failure, kind: "backend_setup", text: text.into() }
    }

    /// The sentence, safe to be shown.
    pub(crate) fn text(&self) -> Clean {
        terminal::clean(&self.text)
    }

    /// The result of a run that never started.
    pub(crate) fn to_json(&self, backend: BackendKind) -> Value {
        let isolation = match backend {
            BackendKind::Wasi => "wasm",
            BackendKind::Docker => "container",
            BackendKind::Ssh => "account",
            // What a command reaches is for its configuration to say, and that could not be used.
            BackendKind::Local | BackendKind::Command => "none",
        };
        json!({
            "status": "error", "tool_calls_made": 0, "duration_seconds": 0.0, "error": self.text(), "kind": self.kind,
            "backend": backend, "isolation": isolation,
        })
    }
}

impl From<SourceError> for Complaint {
    fn from(error: SourceError) -> Self {
        Self { exit: Exit::Usage, kind: "script", text: error.to_string() }
    }
}

impl From<SettingsError> for Complaint {
    fn from(error: SettingsError) -> Self {
        Self::usage(error.to_string())
    }
}

impl From<ConfigError> for Complaint {
    fn from(error: ConfigError) -> Self {
        Self::usage(error.to_string())
    }
}

impl From<BuildError> for Complaint {
    fn from(error: BuildError) -> Self {
        let text = with_causes(&error);
        match error {
            BuildError::Policy(_) | BuildError::Tools(_) | BuildError::Redaction(_) => Self::usage(text),
            _ => Self::setup(text),
        }
    }
}

/// An error with what is behind it, on one line.
fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(deeper) = cause {
        let more = deeper.to_string();
        if !text.ends_with(&more) {
            text.push_str(": ");
            text.push_str(&more.split_whitespace().collect::<Vec<_>>().join(" "));
        }
        cause = deeper.source();
    }
    text
}
