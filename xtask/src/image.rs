//! `cargo xtask image`: builds an image with the program of this tree.

use anyhow::Result;

use crate::command::run;

/// Options of `cargo xtask image`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Its name: `science`.
    name: String,
    /// Passed on to `gloveport image build`: `--wheel FILE` takes a file in place of a download.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    rest: Vec<String>,
}

pub(crate) fn build(args: &Args) -> Result<()> {
    let rest: Vec<&str> = args.rest.iter().map(String::as_str).collect();
    let program = ["run", "--quiet", "--package", "gloveport-cli", "--", "image", "build", &args.name];
    run("cargo", &[&program[..], rest.as_slice()].concat())
}
