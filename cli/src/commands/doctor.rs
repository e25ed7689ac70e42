//! `gloveport doctor`.

mod far;

use gloveport::job::Access;
use gloveport::policy::Platform;
use gloveport::policy::env::{Origin, Profile, Scrubbed, scrub, set_ours};
use gloveport::{Request, Sandbox};

use crate::Host;
use crate::args::{DoctorArgs, Global};
use crate::assembly::Assembly;
use crate::complaint::Complaint;
use crate::exit::Exit;
use crate::terminal::{self, one_line};

/// Prints who runs it, so that a report holds what is needed to understand it.
const PROBE: &str = "import sys; print(sys.implementation.name, sys.version.split()[0])";

/// Says what is set up here and whether a script runs.
pub(crate) fn run(args: &DoctorArgs, global: &Global, host: &Host) -> Result<Exit, Complaint> {
    let assembly = Assembly::new(&args.scope, global, host)?;
    if args.env {
        return Ok(terminal::print(&environment(&assembly, host)?));
    }
    let mut lines = vec![
        row("version", env!("CARGO_PKG_VERSION")),
        row("settings", &sources(&assembly)),
        row("workspace", &workspace(&assembly)),
        row("tools", &names(&assembly)),
    ];
    let unknown = assembly.unknown_tools();
    if !unknown.is_empty() {
        lines.push(row("not here", &unknown.join(", ")));
    }
    lines.push(row("backend", assembly.config().backend.as_str()));
    let healthy = match assembly.remote() {
        Some(_) => far::examine(&assembly, host, &mut lines)?,
        None => {
            let (healthy, script) = probe(assembly, host);
            lines.push(row("script", &script));
            healthy
        }
    };
    match terminal::print(&lines.concat()) {
        Exit::Success if healthy => Ok(Exit::Success),
        Exit::Success => Ok(Exit::Failure),
        broken => Ok(broken),
    }
}

fn row(name: &str, value: &str) -> String {
    format!("{name:<10} {}\n", one_line(value))
}

fn sources(assembly: &Assembly) -> String {
    match assembly.settings.sources.as_slice() {
        [] => "defaults".to_owned(),
        sources => sources.join(", "),
    }
}

fn workspace(assembly: &Assembly) -> String {
    match assembly.grant() {
        None if assembly.remote().is_some() => "where scripts run".to_owned(),
        None => "none".to_owned(),
        Some(grant) => {
            let access = match grant.access {
                Access::ReadOnly => "read-only",
                Access::ReadWrite => "read and write",
            };
            format!("{} ({access})", grant.path.display())
        }
    }
}

fn names(assembly: &Assembly) -> String {
    let names: Vec<String> = assembly.specs().into_iter().map(|spec| spec.name).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

/// Builds the sandbox and runs a line of Python in it.
fn probe(assembly: Assembly, host: &Host) -> (bool, String) {
    let sandbox = match assembly.into_builder(host).build() {
        Ok(sandbox) => sandbox,
        Err(error) => return (false, format!("failed: {}", Complaint::from(error).text())),
    };
    match run_probe(&sandbox) {
        Ok(text) => (true, text),
        Err(text) => (false, format!("failed: {text}")),
    }
}

fn run_probe(sandbox: &Sandbox) -> Result<String, String> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|error| error.to_string())?;
    let result = runtime.block_on(sandbox.execute(Request::new(PROBE).timeout_secs(30.0)));
    match (result.error, result.output) {
        (None, Some(output)) => {
            let milliseconds = result.duration.as_secs_f64() * 1e3;
            Ok(format!("works: {}, {milliseconds:.1} ms, isolation {}", output.as_str().trim(), result.isolation))
        }
        (error, _) => Err(error.map(|text| text.to_string()).unwrap_or_default()),
    }
}

/// What a script gets of the environment, and why not the rest. No values.
fn environment(assembly: &Assembly, host: &Host) -> Result<String, Complaint> {
    let config = assembly.config();
    let redactor = config.redaction.builder().build().map_err(gloveport::BuildError::from)?;
    let profile = Profile::of_backend(config.backend.as_str());
    let looks_secret = |value: &str| redactor.looks_secret(value);
    let mut found = scrub(&host.environment, &config.env.pass, profile, Platform::CURRENT, &looks_secret);
    set_ours(&mut found, config.env.home.as_deref(), profile);
    Ok(describe(&found))
}

fn describe(found: &Scrubbed) -> String {
    let origin = |origin| match origin {
        Origin::Listed => "in the list",
        Origin::PassedThrough => "passed through on request; its value is masked in the output",
        Origin::Ours => "set by Gloveport",
    };
    let passed = found.passed.iter().map(|v| (v.name.clone(), origin(v.origin).to_owned())).collect();
    let mut dropped: Vec<_> = found.dropped.iter().map(|(name, reason)| (name.clone(), reason.to_string())).collect();
    dropped.sort();
    let missing = found.missing.iter().map(|name| (name.clone(), "this process does not have it".to_owned())).collect();
    let mut text = section("A script gets:", passed);
    text.push_str(&section("It does not get:", dropped));
    text.push_str(&section("Asked for, but not set:", missing));
    text.push_str(&format!("{} values are masked in everything that leaves a run.\n", found.secrets.len()));
    text
}

fn section(title: &str, rows: Vec<(String, String)>) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let rows: Vec<(String, String)> = rows.into_iter().map(|(name, why)| (one_line(&name), why)).collect();
    let width = rows.iter().map(|(name, _)| name.chars().count()).max().unwrap_or_default().min(40);
    let lines: String = rows.iter().map(|(name, why)| format!("  {name:<width$}  {why}\n")).collect();
    format!("{title}\n{lines}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_is_told_without_values() {
        let variables = [("LANG", "value-a"), ("MY_TOKEN", "value-b"), ("MINE", "value-c"), ("ODD\x1b[2J", "value-d")];
        let variables: Vec<_> = variables.iter().map(|(name, value)| (name.into(), value.into())).collect();
        let pass = ["MINE".to_owned(), "GONE".to_owned()];
        let mut found = scrub(&variables, &pass, Profile::Wasi, Platform::Unix, &|_| false);
        set_ours(&mut found, None, Profile::Wasi);
        assert_eq!(
            describe(&found),
            "\
A script gets:
  LANG                     in the list
  MINE                     passed through on request; its value is masked in the output
  PYTHONIOENCODING         set by Gloveport
  PYTHONUTF8               set by Gloveport
  PYTHONDONTWRITEBYTECODE  set by Gloveport
  HOME                     set by Gloveport

It does not get:
  MY_TOKEN  the name says that it holds a secret
  ODD       not in the list

Asked for, but not set:
  GONE  this process does not have it

2 values are masked in everything that leaves a run.
"
        );
    }
}
