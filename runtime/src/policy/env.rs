//! Which of the host's environment variables a script gets: the same function for every backend.
//!
//! A name passes because configuration names it or because it stands in a fixed list; everything else is dropped, with the reason kept for
//! `gloveport doctor --env`. Values that were withheld, and those that were passed through on request, are what redaction looks for in the output.

mod names;

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::{Path, PathBuf};

use secrecy::SecretString;

use super::Platform;
use super::input::quoted;
use names::Scope;

/// Linux carries no longer `NAME=value` into a process (`MAX_ARG_STRLEN`).
const LONGEST_VARIABLE: usize = 128 << 10;

/// Where the script runs, which decides what means something there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Profile {
    /// In the WASI guest, which has no shell and none of this machine's paths.
    Wasi,
    /// In a container or on another host, which has paths of its own.
    Remote,
    /// In a child process on this machine.
    Local,
}

impl Profile {
    /// The profile of a backend, by its name.
    pub fn of_backend(name: &str) -> Self {
        match name {
            "wasi" => Self::Wasi,
            "local" => Self::Local,
            _ => Self::Remote,
        }
    }
}

/// Why a variable passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// Its name stands in the list.
    Listed,
    /// Configuration names it.
    PassedThrough,
    /// Set by Gloveport.
    Ours,
}

/// A variable that the script gets. `Debug` hides its value.
#[derive(Clone, PartialEq, Eq)]
pub struct Variable {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: String,
    /// Why it passed.
    pub origin: Origin,
}

impl fmt::Debug for Variable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Variable").field("name", &self.name).field("origin", &self.origin).finish_non_exhaustive()
    }
}

/// Why a variable was dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Reason {
    /// Its name says that it holds a secret.
    SecretName,
    /// Its name is harmless, but its value looks like a secret.
    SecretValue,
    /// It was named for passing through, but is a provider's credential.
    ProviderCredential,
    /// Gloveport sets it itself.
    SetByGloveport,
    /// It is a path or a shell's name of this machine and means nothing where the script runs.
    MeansNothingThere,
    /// Its name is empty, not text, or holds `=` or NUL.
    BadName,
    /// Its value is not UTF-8, or holds NUL.
    NotText,
    /// Its value is longer than a process can be given.
    TooLong,
    /// Its name stands in the list, but its value has a newline or `=`, which no value of these variables has.
    OddValue,
    /// A variable of that name has passed already.
    Repeated,
    /// Nothing lets it pass.
    NotListed,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::SecretName => "the name says that it holds a secret",
            Self::SecretValue => "the value looks like a secret",
            Self::ProviderCredential => "a provider's credential is never passed through",
            Self::SetByGloveport => "set by Gloveport itself",
            Self::MeansNothingThere => "means nothing where the script runs",
            Self::BadName => "not a usable name",
            Self::NotText => "the value is not text",
            Self::TooLong => "the value is too long",
            Self::OddValue => "the value has a newline or '='",
            Self::Repeated => "set twice",
            Self::NotListed => "not in the list",
        })
    }
}

/// What the scrub found. `Debug` shows names only.
#[derive(Debug, Clone, Default)]
pub struct Scrubbed {
    /// What the script gets, in the host's order.
    pub passed: Vec<Variable>,
    /// What it does not get, in the host's order.
    pub dropped: Vec<(String, Reason)>,
    /// Names for passing through that the host does not have.
    pub missing: Vec<String>,
    /// Values for the redaction set, with the names they came from.
    pub secrets: Vec<(String, SecretString)>,
    /// One sentence each; names only.
    pub warnings: Vec<String>,
}

impl Scrubbed {
    /// Names and values as a backend takes them.
    pub fn pairs(&self) -> Vec<(String, String)> {
        self.passed.iter().map(|variable| (variable.name.clone(), variable.value.clone())).collect()
    }

    /// The line for the debug log about `HERMES_*` variables that did not pass, if there were any.
    pub fn hermes_note(&self) -> Option<String> {
        let count = self.dropped.iter().filter(|(name, _)| name.starts_with("HERMES_")).count();
        (count > 0).then(|| {
            format!(
                "{count} HERMES_* variables were not passed to the script; name them in `env.pass` if it needs them"
            )
        })
    }
}

/// Judges every variable of the host. Pure; `looks_secret` is the redactor's judgement of a value.
pub fn scrub(
    environment: &[(OsString, OsString)],
    pass_through: &[String],
    profile: Profile,
    platform: Platform,
    looks_secret: &dyn Fn(&str) -> bool,
) -> Scrubbed {
    let mut scrub =
        Scrub { pass_through, profile, platform, looks_secret, seen: HashSet::new(), found: Scrubbed::default() };
    for (name, value) in environment {
        scrub.take(name, value);
    }
    let Scrub { seen, mut found, .. } = scrub;
    found.missing = pass_through.iter().filter(|name| !seen.contains(&key(name, platform))).cloned().collect();
    found
}

/// Puts the variables in that Gloveport sets, whatever the host had under their names.
pub fn set_ours(scrubbed: &mut Scrubbed, home: Option<&Path>, profile: Profile) {
    let mut ours: Vec<(&str, String)> = OURS.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
    match (home, profile) {
        (Some(home), _) => ours.push(("HOME", home.to_string_lossy().into_owned())),
        // Without a home `Path.home()` fails in the guest, which has no user database; its private directory serves.
        (None, Profile::Wasi) => ours.push(("HOME", WASI_HOME.to_owned())),
        (None, Profile::Remote | Profile::Local) => {}
    }
    for (name, value) in ours {
        scrubbed.passed.retain(|variable| variable.name != name);
        for (_, reason) in scrubbed.dropped.iter_mut().filter(|(dropped, _)| dropped == name) {
            *reason = Reason::SetByGloveport;
        }
        scrubbed.passed.push(Variable { name: name.to_owned(), value, origin: Origin::Ours });
    }
}

/// Root of the active Python environment of the host: `VIRTUAL_ENV`, else `CONDA_PREFIX`.
pub fn python_prefix(environment: &[(OsString, OsString)]) -> Option<PathBuf> {
    ["VIRTUAL_ENV", "CONDA_PREFIX"].into_iter().find_map(|wanted| {
        let (_, value) = environment.iter().find(|(name, _)| name == wanted)?;
        let prefix = PathBuf::from(value);
        prefix.is_absolute().then_some(prefix)
    })
}

/// What Gloveport sets for every script.
const OURS: &[(&str, &str)] = &[("PYTHONIOENCODING", "utf-8"), ("PYTHONUTF8", "1"), ("PYTHONDONTWRITEBYTECODE", "1")];
/// Set by Gloveport for some scripts: a host's value never passes, not even on request.
const OURS_SOMETIMES: &[&str] = &["TZ", "HERMES_RPC_DIR"];
/// The guest's private directory.
const WASI_HOME: &str = "/tmp";

struct Scrub<'a> {
    pass_through: &'a [String],
    profile: Profile,
    platform: Platform,
    looks_secret: &'a dyn Fn(&str) -> bool,
    seen: HashSet<String>,
    found: Scrubbed,
}

impl Scrub<'_> {
    fn take(&mut self, name: &OsStr, value: &OsStr) {
        let Some(name) = name.to_str().filter(|name| !name.is_empty() && !name.contains(['=', '\0'])) else {
            self.found.dropped.push((shown(name), Reason::BadName));
            return self.remember_odd(name, value);
        };
        let repeated = !self.seen.insert(key(name, self.platform));
        let Some(text) = value.to_str().filter(|text| !text.contains('\0')) else {
            return self.drop(name, Reason::NotText);
        };
        if name.len() + text.len() + 2 > LONGEST_VARIABLE {
            return self.drop(name, Reason::TooLong);
        }
        let (verdict, secret) = self.judge(name, text);
        if secret {
            self.remember(name, text);
        } else if let Some(password) = url_password(text) {
            self.remember(name, password);
        }
        match verdict {
            Ok(_) if repeated => self.drop(name, Reason::Repeated),
            Ok(origin) => {
                self.found.passed.push(Variable { name: name.to_owned(), value: text.to_owned(), origin });
            }
            Err(reason) => self.drop(name, reason),
        }
    }

    /// Whether a well-formed variable passes, and whether its value joins the redaction set.
    fn judge(&mut self, name: &str, value: &str) -> (Result<Origin, Reason>, bool) {
        let upper = name.to_ascii_uppercase();
        let secret_value = (self.looks_secret)(value);
        let secret = secret_value || names::holds_secret(&upper);
        if is_ours(name) {
            return (Err(Reason::SetByGloveport), secret);
        }
        if self.pass_through.iter().any(|wanted| key(wanted, self.platform) == key(name, self.platform)) {
            if names::is_provider_credential(&upper) {
                self.warn(format!("{} is a provider's credential and is not passed through.", quoted(name)));
                return (Err(Reason::ProviderCredential), true);
            }
            return (Ok(Origin::PassedThrough), true);
        }
        if names::may_be_secret(&upper) {
            return (Err(Reason::SecretName), secret);
        }
        (self.judge_listed(name, value, secret_value), secret)
    }

    fn judge_listed(&mut self, name: &str, value: &str, secret_value: bool) -> Result<Origin, Reason> {
        let scope = names::listed(&key(name, self.platform)).ok_or(Reason::NotListed)?;
        let meant = match scope {
            Scope::Anywhere => true,
            Scope::Here => self.profile == Profile::Local,
            Scope::Windows => self.profile == Profile::Local && self.platform == Platform::Windows,
        };
        if secret_value {
            self.warn(format!("{} is not passed to scripts: its value looks like a secret.", quoted(name)));
            return Err(Reason::SecretValue);
        }
        if value.contains(['\n', '\r', '=']) {
            return Err(Reason::OddValue);
        }
        if meant { Ok(Origin::Listed) } else { Err(Reason::MeansNothingThere) }
    }

    fn drop(&mut self, name: &str, reason: Reason) {
        self.found.dropped.push((name.to_owned(), reason));
    }

    fn warn(&mut self, sentence: String) {
        self.found.warnings.push(sentence);
    }

    fn remember(&mut self, name: &str, secret: &str) {
        self.found.secrets.push((name.to_owned(), SecretString::from(secret)));
    }

    /// A variable with an odd name may still hold a secret that is text.
    fn remember_odd(&mut self, name: &OsStr, value: &OsStr) {
        if let Some(text) = value.to_str()
            && text.len() < LONGEST_VARIABLE
            && (self.looks_secret)(text)
        {
            self.remember(&shown(name), text);
        }
    }
}

/// How a name is compared on this platform.
fn key(name: &str, platform: Platform) -> String {
    match platform {
        Platform::Unix => name.to_owned(),
        Platform::Windows => name.to_ascii_uppercase(),
    }
}

fn is_ours(name: &str) -> bool {
    OURS.iter().any(|(ours, _)| *ours == name) || OURS_SOMETIMES.contains(&name)
}

fn shown(name: &OsStr) -> String {
    name.to_string_lossy().into_owned()
}

/// The password in `scheme://user:password@host`, which proxies and databases put into otherwise harmless variables.
fn url_password(value: &str) -> Option<&str> {
    let (scheme, rest) = value.split_once("://")?;
    let scheme_like = !scheme.is_empty() && scheme.bytes().all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b));
    let authority = rest.split(['/', '?', '#']).next()?;
    let (userinfo, _host) = authority.rsplit_once('@')?;
    let (_user, password) = userinfo.split_once(':')?;
    (scheme_like && !password.is_empty()).then_some(password)
}

#[cfg(test)]
mod tests;
