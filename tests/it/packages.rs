//! Self-checks of the science image's packages: `tests/packages/NAME.py` prints what `NAME.out` holds, which native CPython printed with the same
//! versions of the packages (or `NAME.science.out`, where the image differs).

use std::fs;
use std::path::PathBuf;

use gloveport::{Request, Sandbox, Status};
use libtest_mimic::Trial;

use crate::harness;

pub(crate) fn trials() -> Vec<Trial> {
    let dir = gloveport_tests::repository().join("tests/packages");
    let mut paths: Vec<PathBuf> = fs::read_dir(&dir)
        .expect("tests/packages")
        .map(|entry| entry.expect("an entry of tests/packages").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "py"))
        .collect();
    paths.sort();
    let trial = |path: PathBuf| {
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        harness::science_trial(format!("packages::{name}"), move |sandbox| check(sandbox, path))
    };
    paths.into_iter().map(trial).collect()
}

async fn check(sandbox: Sandbox, path: PathBuf) {
    let code = fs::read_to_string(&path).expect("a self-check is UTF-8");
    let result = sandbox.execute(Request::new(code)).await;
    assert_eq!(result.status, Status::Success, "{}", result.to_json());
    let different = path.with_extension("science.out");
    let expected = if different.exists() { different } else { path.with_extension("out") };
    let expected = fs::read_to_string(&expected).expect("the expected output");
    assert_eq!(result.output.map(String::from).unwrap_or_default(), expected);
}
