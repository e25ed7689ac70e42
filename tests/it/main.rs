//! The one integration binary. Cases of `tests/cases` run on every backend; what needs Rust to observe stands in a module by subject.
//!
//! Tests are registered at run time, so that one which needs a missing engine is *ignored* with its reason, and counted.

#![expect(clippy::disallowed_methods, reason = "tests prepare files and look at them afterward")]
#![expect(clippy::unwrap_used, reason = "a test that can not go on has failed")]

mod cases;
#[path = "../../backends/tests/it/engines.rs"]
#[allow(dead_code, unreachable_pub, reason = "shared with the backends' own suite, which uses all of it")]
mod engines;
mod harness;
mod hostile;
mod images;
mod library;
mod lifecycle;
mod own_images;
mod packages;
mod seal;
mod tool_calls;

use std::process::ExitCode;

use libtest_mimic::{Arguments, Trial};

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let trials: Vec<Trial> = [
        cases::trials(),
        hostile::trials(),
        images::trials(),
        own_images::trials(),
        library::trials(),
        lifecycle::trials(),
        packages::trials(),
        seal::trials(),
        tool_calls::trials(),
    ]
    .into_iter()
    .flatten()
    .collect();
    let conclusion = libtest_mimic::run(&arguments, trials);
    engines::stop();
    conclusion.exit_code()
}
