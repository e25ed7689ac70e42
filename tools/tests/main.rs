//! The tools over a real directory, as the dispatcher calls them.
#![expect(clippy::unwrap_used, clippy::exit, reason = "a test that can not go on has failed")]
#![expect(clippy::disallowed_methods, reason = "tests make and look at files and processes themselves")]

mod custom;
mod files;
mod hostile;
mod kill;
mod patch;
mod remote;
mod speed;
mod support;
mod terminal;
#[cfg(feature = "web")]
mod web;
