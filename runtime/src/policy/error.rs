//! Why a sandbox or a request is refused before anything starts.

use crate::backend::Isolation;
use crate::config::ConfigError;

/// Why a sandbox can't be built with this configuration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PolicyBuildError {
    /// A value that the configuration may not hold.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The backend seals less than was asked for.
    #[error(
        "backend `{backend}` reaches isolation level `{reached}`, but `isolation_floor` asks for at least `{floor}`"
    )]
    Isolation {
        /// Which backend.
        backend: String,
        /// What it reaches.
        reached: Isolation,
        /// What was asked for.
        floor: Isolation,
    },
    /// The backend can't enforce a limit that was configured.
    #[error("backend `{backend}` can't enforce `{key}`; remove it from the configuration or choose another backend")]
    Unenforceable {
        /// Which backend.
        backend: String,
        /// Dotted path of the key.
        key: &'static str,
    },
}

/// Why a request is refused. The text is the result's `error`; it repeats no more of the input than is needed to find the mistake.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum PolicyError {
    /// The code is empty or blank. The result is `{"error": "No code provided."}` and nothing else.
    #[error("No code provided.")]
    NoCode,
    /// Python source can't hold NUL.
    #[error("The code contains a NUL character (line {line}).")]
    NulInCode {
        /// One-based.
        line: usize,
    },
    /// Over [`super::MAX_CODE_BYTES`].
    #[error("The code is too large: {bytes} bytes, the limit is {limit}.")]
    CodeTooLarge {
        /// Its size.
        bytes: usize,
        /// What is allowed.
        limit: usize,
    },
    /// Not a positive finite number, or more than configured.
    #[error("Invalid timeout: {}. It has to be a number of seconds above 0 and at most {most}.", shown(*.given))]
    Timeout {
        /// As asked for.
        given: f64,
        /// What is allowed.
        most: f64,
    },
    /// No such zone.
    #[error("Invalid timezone: {0}.")]
    Timezone(String),
    /// An argument of the script holds NUL.
    #[error("Argument {position} contains a NUL character.")]
    NulInArgument {
        /// One-based.
        position: usize,
    },
    /// The arguments of the script are too long together.
    #[error("The arguments are too large: {bytes} bytes, the limit is {limit}.")]
    ArgumentsTooLarge {
        /// Their size.
        bytes: usize,
        /// What is allowed.
        limit: usize,
    },
}

/// A number as people write it: 309 digits of the largest one help nobody.
fn shown(number: f64) -> String {
    if number.abs() < 1e12 || !number.is_finite() { number.to_string() } else { format!("{number:e}") }
}
