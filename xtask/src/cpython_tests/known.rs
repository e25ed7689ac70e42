//! `xtask/cpython-tests.toml`: which test modules run, what is pretended for them, and which failures are known.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};

/// The file.
#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Known {
    /// Modules by subject, as `test_json` or `test_asyncio.test_tasks`.
    modules: BTreeMap<String, Vec<String>>,
    /// What is pretended, by pattern of modules; see `driver.py`.
    #[serde(default)]
    pretend: BTreeMap<String, Vec<String>>,
    #[serde(default)]
    failure: Vec<Failure>,
}

/// Tests that fail for one reason.
#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Failure {
    /// The reason, as the table shows it.
    why: String,
    /// Patterns of test ids; `*` stands for any text.
    tests: Vec<String>,
    /// The tests are not even run, because they would end the guest or never return. They count as failed.
    #[serde(default)]
    left_out: bool,
    /// The tests pass now and then; passing is no complaint.
    #[serde(default)]
    sometimes: bool,
}

impl Known {
    /// Reads the file.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        Self::parse(&text).with_context(|| path.display().to_string())
    }

    fn parse(text: &str) -> Result<Self> {
        let known: Self = toml::from_str(text)?;
        let modules = known.modules();
        for pattern in known.failure.iter().flat_map(|failure| &failure.tests) {
            let owned = modules.iter().any(|module| belongs(pattern, module));
            ensure!(owned, "`{pattern}` starts with none of the modules that run");
        }
        Ok(known)
    }

    /// All modules, in alphabetical order.
    pub(crate) fn modules(&self) -> Vec<String> {
        let mut modules: Vec<String> = self.modules.values().flatten().cloned().collect();
        modules.sort();
        modules.dedup();
        modules
    }

    /// What the driver pretends for a module.
    pub(crate) fn pretended(&self, module: &str) -> Vec<&str> {
        let chosen = self.pretend.iter().filter(|(pattern, _)| matches(pattern, module));
        chosen.flat_map(|(_, what)| what.iter().map(String::as_str)).collect()
    }

    /// Patterns of the tests of a module that are not run.
    pub(crate) fn left_out(&self, module: &str) -> Vec<&str> {
        let failures = self.failure.iter().filter(|failure| failure.left_out);
        let patterns = failures.flat_map(|failure| failure.tests.iter().map(String::as_str));
        patterns.filter(|pattern| belongs(pattern, module)).collect()
    }

    /// Why a test fails; `None` when it is not known to.
    pub(crate) fn reason(&self, test: &str) -> Option<&str> {
        let mut failures = self.failure.iter();
        failures.find(|failure| failure.tests.iter().any(|p| matches(p, test))).map(|failure| failure.why.as_str())
    }

    /// Patterns of a module that no failed test matches.
    pub(crate) fn stale(&self, module: &str, failed: &[&str]) -> Vec<&str> {
        let failures = self.failure.iter().filter(|failure| !failure.sometimes);
        let patterns = failures.flat_map(|failure| failure.tests.iter().map(String::as_str));
        let own = patterns.filter(|pattern| belongs(pattern, module));
        own.filter(|pattern| !failed.iter().any(|test| matches(pattern, test))).collect()
    }
}

/// Whether a pattern of test ids is about a module: `test_json.*` is about `test_json`, `test_jsonx.*` is not. Fixtures of classes are named
/// `setUpClass (test.test_json.Class)`.
fn belongs(pattern: &str, module: &str) -> bool {
    let place = pattern.split_once('(').map_or(pattern, |(_, place)| place.strip_prefix("test.").unwrap_or(place));
    place.strip_prefix(module).is_some_and(|rest| rest.is_empty() || rest.starts_with('.') || rest.starts_with('*'))
}

/// Whether the whole text fits a pattern, in which `*` stands for any text.
pub(crate) fn matches(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((start, rest)) => text.strip_prefix(start).is_some_and(|text| {
            text.char_indices().map(|(at, _)| at).chain([text.len()]).any(|at| matches(rest, &text[at..]))
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = r#"
        [modules]
        data = ["test_json", "test_csv"]
        [pretend]
        "test_c*" = ["threads"]
        [[failure]]
        why = "slow"
        tests = ["test_csv.A.*", "setUpClass (test.test_csv.B)"]
        left_out = true
        [[failure]]
        why = "small"
        tests = ["test_json.C.test_x"]
    "#;

    #[test]
    fn patterns_match_whole_texts() {
        assert!(matches("a.*.c*", "a.b.cd"));
        assert!(matches("a*", "a"));
        assert!(!matches("a.*.c", "a.b.cd"));
        assert!(!matches("a", "ab"));
    }

    #[test]
    fn what_is_known_is_told_by_module_and_test() {
        let known = Known::parse(FILE).unwrap();
        assert_eq!(known.modules(), ["test_csv", "test_json"]);
        assert_eq!(known.pretended("test_csv"), ["threads"]);
        assert!(known.pretended("test_json").is_empty());
        assert_eq!(known.left_out("test_csv"), ["test_csv.A.*", "setUpClass (test.test_csv.B)"]);
        assert_eq!(known.reason("test_csv.A.test_1"), Some("slow"));
        assert_eq!(known.reason("test_csv.B.test_1"), None);
        assert_eq!(known.stale("test_csv", &["test_csv.A.test_1"]), ["setUpClass (test.test_csv.B)"]);
        assert_eq!(known.stale("test_json", &[]), ["test_json.C.test_x"]);
    }

    #[test]
    fn a_pattern_outside_the_modules_is_refused() {
        assert!(
            Known::parse("[modules]\na = [\"test_a\"]\n[[failure]]\nwhy = \"w\"\ntests = [\"test_ab.*\"]").is_err()
        );
    }
}
