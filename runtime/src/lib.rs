//! Runs Python that a language model wrote, sealed, with the host's tools as its only way out.
#![deny(missing_docs)]

pub mod approval;
pub mod backend;
pub mod config;
pub mod dispatch;
mod hint;
pub mod job;
pub mod output;
pub mod policy;
pub mod request;
pub mod result;
mod sandbox;
pub mod schema;
pub mod stubs;
pub mod tool;
#[cfg(feature = "wasi")]
pub mod wasi;
pub mod workspace;

pub use config::Config;
pub use request::Request;
pub use result::{RunResult, Status};
pub use sandbox::{BuildError, Cancel, Controls, LiveOutput, Sandbox, SandboxBuilder};
