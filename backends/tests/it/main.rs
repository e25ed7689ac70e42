//! Every case on every kind of remote. A place whose engine is missing has its cases ignored, with the reason in their names' kind.
//!
//! `cargo test -p gloveport-backends --test it -- [FILTER]`. Engines: a child process of this one, an `sshd` on loopback, a `dockerd` with its own data
//! folder; both are started here and stopped by process id.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used, clippy::print_stderr, clippy::disallowed_methods)]

mod bench;
mod cases;
mod docker;
mod engines;
mod faults;
mod forged;
mod harness;
mod limits;
mod ssh;
mod workspace;

use libtest_mimic::{Arguments, Trial};

fn main() {
    if let Some(code) = harness::child() {
        std::process::exit(code);
    }
    let arguments = Arguments::from_args();
    let mut trials: Vec<Trial> = Vec::new();
    for module in [cases::trials(), forged::trials(), limits::trials(), faults::trials(), workspace::trials()] {
        trials.extend(module);
    }
    trials.extend(ssh::trials());
    trials.extend(docker::trials());
    trials.extend(bench::trials());
    let conclusion = libtest_mimic::run(&arguments, trials);
    engines::stop();
    conclusion.exit();
}
