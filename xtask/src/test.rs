//! `cargo xtask test`: all tests, with the set-up that they need.

use anyhow::Result;

use crate::command::{command, run, works};

/// Options of `cargo xtask test`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Install a Docker Engine and an sshd for the tests of the remote backends if they are missing, and fail without them; so it is on CI.
    /// Otherwise tests whose engine is not installed are ignored.
    #[arg(long)]
    engines: bool,
    /// Ignore the tests that need a Docker Engine or an sshd.
    #[arg(long, conflicts_with = "engines")]
    no_engines: bool,
    /// Passed to the tests: names to run, or flags after `--`.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    rest: Vec<String>,
}

/// Programs of the engines that the remote backends are tested with, and the Debian packages that bring them.
const ENGINES: &[(&str, &str)] =
    &[("dockerd", "docker.io"), ("sshd", "openssh-server"), ("mmdebstrap", "mmdebstrap"), ("ssh", "openssh-client")];
/// Where programs of administrators are, which a user's PATH may leave out.
const PLACES: &[&str] = &["/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin", "/bin", "/sbin"];

/// Pythons that can run the shim's unit tests: its code is for 3.13 alone.
const PYTHONS: &[&str] = &["python3.13", "python3"];

pub(crate) fn run_all(args: &Args) -> Result<()> {
    let whole = args.engines || std::env::var_os("CI").is_some() && !args.no_engines;
    if !args.no_engines {
        set_up_engines(whole)?;
    }
    let rest: Vec<&str> = args.rest.iter().map(String::as_str).collect();
    let mut cargo =
        command("cargo", &[&["test", "--workspace", "--locked", "--no-fail-fast"], rest.as_slice()].concat());
    if !args.no_engines {
        cargo.env("GLOVEPORT_ENGINES", "1");
    }
    if whole && rest.is_empty() {
        build_science_image();
    }
    eprintln!("+ cargo test --workspace --locked --no-fail-fast {}", rest.join(" "));
    anyhow::ensure!(cargo.status()?.success(), "tests failed");
    // The integration suite runs the shim in the real guest; its unit tests need a native Python 3.13 and minutes.
    if !rest.is_empty() || !whole {
        return Ok(());
    }
    let is_313 = "import sys; sys.exit(sys.version_info[:2] != (3, 13))";
    match PYTHONS.iter().find(|python| works(python, &["-c", is_313])) {
        Some(python) => run(python, &["-m", "unittest", "discover", "-s", "guest-python/tests"]),
        None => {
            eprintln!(
                "ignored: the shim's unit tests need a native Python 3.13; the integration suite runs the shim itself"
            );
            Ok(())
        }
    }
}

/// Takes about three minutes and a download from PyPI. Where it can't be had, the tests on it are ignored with the reason.
fn build_science_image() {
    let program = ["run", "--quiet", "--locked", "--package", "gloveport-cli", "--", "image"];
    if works("cargo", &[&program[..], &["verify", "science"]].concat()) {
        return;
    }
    if let Err(error) = run("cargo", &[&program[..], &["build", "science"]].concat()) {
        eprintln!("the science image can't be built, so its tests are ignored: {error:#}");
    }
}

/// Finds out what is missing. Where all of it `must` be there, it is installed if that can be done here.
fn set_up_engines(must: bool) -> Result<()> {
    if must && !missing_packages().is_empty() && is_debian_root() {
        run("apt-get", &["update"])?;
        let install = ["install", "--yes", "--no-install-recommends"];
        let missing = missing_packages();
        run("env", &[&["DEBIAN_FRONTEND=noninteractive", "apt-get"], &install[..], missing.as_slice()].concat())?;
    }
    let packages = missing_packages().join(" ");
    if !packages.is_empty() {
        anyhow::ensure!(!must, "engines of the tests are missing: {packages}");
        eprintln!("engines are missing, so their tests are ignored; `cargo xtask test --engines` installs {packages}");
    }
    Ok(())
}

fn is_debian_root() -> bool {
    works("apt-get", &["--version"]) && works("sh", &["-c", "test $(id -u) = 0"])
}

fn missing_packages() -> Vec<&'static str> {
    let is_there = |program: &str| PLACES.iter().any(|place| std::path::Path::new(place).join(program).exists());
    ENGINES.iter().filter(|(program, _)| !is_there(program)).map(|(_, package)| *package).collect()
}
