//! One module for each command. Each gives the exit code, or a complaint for stderr.

pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod doctor;
pub(crate) mod env;
#[cfg(feature = "wasi")]
pub(crate) mod image;
pub(crate) mod run;
pub(crate) mod schema;
pub(crate) mod tools;
