//! Runs Gloveport's scripts where a container or another machine is wanted: the same script, the same contract.
//!
//! A remote need only do one thing: start a process with piped stdin and stdout ([`remote::Remote`]). Over that one channel runs
//! a relay, a Python file that is sent over stdin, and it carries everything: the script, its output, its tool calls, the files that the
//! tools work on. [`docker`], [`ssh`], [`local`] and [`command`] differ in how the process is started and in nothing else.
#![deny(missing_docs)]

mod backend;
mod bundle;
pub mod command;
#[cfg(feature = "docker")]
pub mod docker;
mod environment;
mod files;
mod frame;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod journal;
pub mod local;
mod process;
mod random;
mod relay;
pub mod remote;
mod run;
mod seal;
#[cfg(feature = "ssh")]
pub mod ssh;
mod workspace;

pub use backend::RemoteBackend;
pub use environment::{EnvironmentPool, PoolLimits, Provider};
pub use relay::Hello;
pub use workspace::{PathGuard, Use};

/// Longest frame that a relay takes: more than the largest request, answer or script that configuration allows.
const MAX_FRAME: usize = 272 << 20;
