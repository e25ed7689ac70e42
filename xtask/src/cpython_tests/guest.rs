//! Runs one test module in the guest, again and again until no test ends the guest before its time.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use serde_json::{Value, json};

use super::known::Known;
use crate::command::command;

/// What each run may use. The rest is as for any script.
const LIMITS: [&str; 6] = ["--timeout", "900", "--memory", "1024", "--tools", "none"];
/// Starts the driver's lines, as in driver.py.
const MARK: &str = "@cpython-test@ ";
const DRIVER: &str = include_str!("driver.py");
/// Room for the line that the driver prints before each test. Names of tests must not be taken for secrets.
const CONFIG: &str = "[output]\nmax_stdout = 64000000\n[redaction]\nenabled = false\n";
/// Tests of one module that may end the guest before the module is given up.
const MAX_ENDINGS: usize = 20;

/// The results of one module.
#[derive(Debug, Default, serde::Deserialize)]
pub(crate) struct Outcome {
    pub(crate) passed: usize,
    /// Skipped tests by the reason that they gave.
    pub(crate) skipped: BTreeMap<String, usize>,
    /// Failed tests with the start of the error.
    pub(crate) failed: BTreeMap<String, String>,
    /// Tests that were not run because they are known to end the guest.
    left_out: Vec<String>,
}

impl Outcome {
    /// Tests that were skipped.
    pub(crate) fn skipped_count(&self) -> usize {
        self.skipped.values().sum()
    }
}

/// The program under test and what it is given.
pub(crate) struct Guest {
    gloveport: PathBuf,
    driver: PathBuf,
    config: PathBuf,
    tests: PathBuf,
}

/// How one run ended.
enum Ending {
    Finished(Outcome),
    /// The guest ended or had to be stopped while this test ran.
    Early {
        test: String,
        how: String,
    },
}

impl Guest {
    /// Writes the driver and the settings below `scratch`. `tests` is the directory that the test package is imported from.
    pub(crate) fn new(scratch: &Path, gloveport: &Path, tests: PathBuf) -> Result<Self> {
        let driver = scratch.join("driver.py");
        let config = scratch.join("gloveport.toml");
        std::fs::write(&driver, DRIVER)?;
        std::fs::write(&config, CONFIG)?;
        Ok(Self { gloveport: gloveport.to_owned(), driver, config, tests })
    }

    /// Runs a module.
    pub(crate) fn run(&self, module: &str, known: &Known) -> Result<Outcome> {
        let mut left_out: Vec<String> = known.left_out(module).into_iter().map(str::to_owned).collect();
        let mut ended = BTreeMap::new();
        while ended.len() < MAX_ENDINGS {
            let options = json!({"leave_out": left_out, "pretend": known.pretended(module)});
            match self.run_once(module, &options.to_string())? {
                Ending::Finished(mut outcome) => {
                    for test in std::mem::take(&mut outcome.left_out) {
                        let how = ended.remove(&test).unwrap_or_else(|| "not run".to_owned());
                        outcome.failed.insert(test, how);
                    }
                    return Ok(outcome);
                }
                // It ended while the module was imported or when all was over; no test can be left out.
                Ending::Early { test, how } if test == module || ended.contains_key(&test) => {
                    let failed = BTreeMap::from([(module.to_owned(), how)]);
                    return Ok(Outcome { failed, ..Outcome::default() });
                }
                Ending::Early { test, how } => {
                    eprintln!("{module}: {test} ended the guest: {how}");
                    left_out.push(test.clone());
                    ended.insert(test, how);
                }
            }
        }
        bail!("more than {MAX_ENDINGS} tests end the guest")
    }

    fn run_once(&self, module: &str, options: &str) -> Result<Ending> {
        let program = self.gloveport.to_str().context("the path of gloveport is not UTF-8")?;
        let workspace = format!("{}:ro", self.tests.display());
        let mut command = command(program, &["run", "--json", "--workspace", &workspace]);
        command.arg("--config").arg(&self.config).args(LIMITS).arg(&self.driver).args(["--", module, options]);
        let done = command.output().with_context(|| format!("cannot start {program}"))?;
        let result: Value = serde_json::from_slice(&done.stdout)
            .with_context(|| format!("no result: {}", String::from_utf8_lossy(&done.stderr)))?;
        read(&result)
    }
}

/// Reads the driver's lines.
fn read(result: &Value) -> Result<Ending> {
    let output = result["output"].as_str().unwrap_or_default();
    let mut records = output.lines().filter_map(|line| line.strip_prefix(MARK));
    let last: Value =
        serde_json::from_str(records.next_back().with_context(|| format!("the driver did not start: {result}"))?)?;
    if last.get("passed").is_some() {
        return Ok(Ending::Finished(serde_json::from_value(last)?));
    }
    let test = last["start"].as_str().context("a record of an unknown kind")?.to_owned();
    let text = result["error"].as_str().unwrap_or("the script ended without an error");
    let how = text.trim().lines().last().unwrap_or_default().to_owned();
    Ok(Ending::Early { test, how })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(lines: &[Value]) -> Value {
        let output: String = lines.iter().map(|line| format!("noise\n{MARK}{line}\n")).collect();
        json!({"status": "timeout", "output": output, "error": "a\nScript timed out."})
    }

    #[test]
    fn a_run_that_came_to_its_end_has_counts() {
        let end = json!({"passed": 2, "skipped": {"why": 3}, "failed": {"test_a.B.c": "E: x"}, "left_out": []});
        let ending = read(&result(&[json!({"start": "test_a"}), end])).unwrap();
        let Ending::Finished(outcome) = ending else { panic!("not finished") };
        assert_eq!((outcome.passed, outcome.skipped_count(), outcome.failed.len()), (2, 3, 1));
    }

    #[test]
    fn a_run_that_did_not_names_the_test() {
        let ending = read(&result(&[json!({"start": "test_a"}), json!({"start": "test_a.B.c"})])).unwrap();
        let Ending::Early { test, how } = ending else { panic!("finished") };
        assert_eq!((test.as_str(), how.as_str()), ("test_a.B.c", "Script timed out."));
    }
}
