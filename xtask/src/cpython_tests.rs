//! `cargo xtask cpython-tests`: CPython's own tests, run inside the guest through the command-line program.
//!
//! The test package comes from the pinned tarball of `cargo xtask cpython` and lies in a temporary directory for as long as the tests run. Which
//! modules run, and which failures are known and why, is in `xtask/cpython-tests.toml`. Any other failure is an error, and so is a known one that no longer
//! happens, so that the table in LIMITATIONS.md can't drift from the truth.

mod guest;
mod known;
mod package;
mod table;

use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use anyhow::{Context as _, Result, bail};

use crate::command::{command, root};
use guest::{Guest, Outcome};
use known::Known;

/// Options of `cargo xtask cpython-tests`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The tarball of the CPython sources; without it, Debian's source package is fetched through apt.
    #[arg(long, value_name = "PATH")]
    tarball: Option<PathBuf>,
    /// The command-line program to test; without it, the one of this workspace is built.
    #[arg(long, value_name = "PATH")]
    gloveport: Option<PathBuf>,
    /// Test modules to run, as test_json or test_asyncio.test_tasks, separated by commas [default: all in the table]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    only: Vec<String>,
    /// Write the rows of the modules that ran into LIMITATIONS.md.
    #[arg(long)]
    write: bool,
    /// Modules to run at the same time [default: one for each processor]
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
}

/// One module and how it went.
pub(crate) struct Row {
    pub(crate) module: String,
    pub(crate) outcome: Outcome,
}

/// Fetches the tests, runs them, compares with what is known, and writes the table.
pub(crate) fn run_tests(args: &Args) -> Result<()> {
    let known = Known::read(&root().join("xtask/cpython-tests.toml"))?;
    let modules = select(&known, &args.only)?;
    let gloveport = match &args.gloveport {
        Some(path) => std::path::absolute(path)?,
        None => build_gloveport()?,
    };
    let scratch = tempfile::tempdir()?;
    let tests = package::unpack(scratch.path(), args.tarball.as_deref())?;
    let guest = Guest::new(scratch.path(), &gloveport, tests)?;
    let jobs = match args.jobs {
        Some(jobs) => jobs.max(1),
        None => std::thread::available_parallelism()?.get(),
    };
    let rows = run_modules(&guest, &known, modules, jobs)?;
    if args.write {
        table::write(&root().join("LIMITATIONS.md"), &rows, &known)?;
    }
    judge(&rows, &known)
}

fn select(known: &Known, only: &[String]) -> Result<Vec<String>> {
    let all = known.modules();
    if let Some(stranger) = only.iter().find(|name| !all.contains(name)) {
        bail!("{stranger} is not in xtask/cpython-tests.toml");
    }
    Ok(all.into_iter().filter(|name| only.is_empty() || only.contains(name)).collect())
}

/// Builds the command-line program of this workspace and returns its path.
fn build_gloveport() -> Result<PathBuf> {
    let args = ["build", "--quiet", "--locked", "-p", "gloveport-cli", "--message-format=json-render-diagnostics"];
    let built =
        command("cargo", &args).stderr(std::process::Stdio::inherit()).output().context("cannot start cargo")?;
    let executable = String::from_utf8_lossy(&built.stdout)
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .filter_map(|message| message["executable"].as_str().map(PathBuf::from))
        .next_back();
    executable.filter(|_| built.status.success()).context("cargo built no gloveport")
}

/// Runs every module, the given number at a time, and returns the rows in the order of the modules.
fn run_modules(guest: &Guest, known: &Known, modules: Vec<String>, jobs: usize) -> Result<Vec<Row>> {
    let next = AtomicUsize::new(0);
    let outcomes = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..jobs.min(modules.len()) {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(module) = modules.get(index) else { break };
                    let outcome = run_module(guest, known, module);
                    outcomes.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push((index, outcome));
                }
            });
        }
    });
    let mut outcomes = outcomes.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
    outcomes.sort_by_key(|(index, _)| *index);
    let pairs = modules.into_iter().zip(outcomes);
    pairs.map(|(module, (_, outcome))| Ok(Row { module, outcome: outcome? })).collect()
}

fn run_module(guest: &Guest, known: &Known, module: &str) -> Result<Outcome> {
    let since = Instant::now();
    let outcome = guest.run(module, known).with_context(|| format!("cannot run {module}"))?;
    eprintln!(
        "{module}: {} passed, {} failed, {} skipped, {:.0} s",
        outcome.passed,
        outcome.failed.len(),
        outcome.skipped_count(),
        since.elapsed().as_secs_f64()
    );
    Ok(outcome)
}

/// Complains about each failure that is not known, and each known one that did not happen.
fn judge(rows: &[Row], known: &Known) -> Result<()> {
    let mut complaints = Vec::new();
    for row in rows {
        for (test, error) in &row.outcome.failed {
            if known.reason(test).is_none() {
                complaints.push(format!("{test} fails: {error}"));
            }
        }
        let failed: Vec<&str> = row.outcome.failed.keys().map(String::as_str).collect();
        for pattern in known.stale(&row.module, &failed) {
            complaints.push(format!("{pattern} is known to fail, and passes"));
        }
    }
    for complaint in &complaints {
        eprintln!("cpython-tests: {complaint}");
    }
    if complaints.is_empty() { Ok(()) } else { bail!("{} results are not the known ones", complaints.len()) }
}
