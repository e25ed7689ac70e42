//! The tools over a real directory, as the dispatcher calls them.

mod files;
mod patch;
mod support;
