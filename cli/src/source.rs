//! Where the code comes from: a file, standard input or the command line. What can't be Python source is refused in one sentence.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use gloveport::policy::MAX_CODE_BYTES;

/// Code and the name that tracebacks show for it.
#[derive(Debug, PartialEq)]
pub(crate) struct Source {
    pub(crate) code: String,
    pub(crate) filename: String,
}

/// Why there is no code.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SourceError {
    #[error("can't read {name}: {problem}")]
    Read { name: String, problem: String },
    #[error("{name} is not UTF-8 text (first bad byte at offset {offset})")]
    NotUtf8 { name: String, offset: usize },
    #[error("{name} is too large: {size}, the limit is {MAX_CODE_BYTES} bytes")]
    TooLarge { name: String, size: String },
}

/// The code of `-c`.
pub(crate) fn from_argument(code: &OsStr) -> Result<Source, SourceError> {
    let bytes = code.as_encoded_bytes();
    text(bytes.to_vec(), "the code").map(|code| Source { code, filename: "<string>".into() })
}

/// The code of standard input.
pub(crate) fn from_stdin() -> Result<Source, SourceError> {
    let name = "standard input";
    let bytes = bounded(io::stdin().lock(), name, None)?;
    text(bytes, name).map(|code| Source { code, filename: "<stdin>".into() })
}

/// The code of a file: anything that can be read like one, pipes of the shell included.
#[expect(clippy::disallowed_methods, reason = "a script is named by the user, who may read any file")]
pub(crate) fn from_file(path: &Path) -> Result<Source, SourceError> {
    let name = path.display().to_string();
    let failed = |problem: String| SourceError::Read { name: name.clone(), problem };
    let file = File::open(path).map_err(|error| failed(described(&error)))?;
    let metadata = file.metadata().map_err(|error| failed(described(&error)))?;
    if metadata.is_dir() {
        return Err(failed("it is a directory".into()));
    }
    let size = metadata.is_file().then_some(metadata.len());
    let bytes = bounded(file, &name, size)?;
    text(bytes, &name).map(|code| Source { code, filename: name })
}

/// Reads no more than is needed to see that it is too much: a device or a pipe may have no end.
fn bounded(reader: impl Read, name: &str, size: Option<u64>) -> Result<Vec<u8>, SourceError> {
    let limit = MAX_CODE_BYTES as u64;
    let mut bytes = Vec::new();
    reader
        .take(limit + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| SourceError::Read { name: name.to_owned(), problem: described(&error) })?;
    if bytes.len() > MAX_CODE_BYTES {
        let size = size.map_or_else(|| format!("more than {limit} bytes"), |size| format!("{size} bytes"));
        return Err(SourceError::TooLarge { name: name.to_owned(), size });
    }
    Ok(bytes)
}

fn text(bytes: Vec<u8>, name: &str) -> Result<String, SourceError> {
    String::from_utf8(bytes)
        .map_err(|error| SourceError::NotUtf8 { name: name.to_owned(), offset: error.utf8_error().valid_up_to() })
}

/// An I/O error in words, without the number that the standard library puts behind them.
pub(crate) fn described(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "no such file or directory".into(),
        io::ErrorKind::PermissionDenied => "permission denied".into(),
        io::ErrorKind::IsADirectory => "it is a directory".into(),
        io::ErrorKind::NotADirectory => "it is not a directory".into(),
        _ => {
            let text = error.to_string();
            text.split(" (os error").next().unwrap_or_default().to_lowercase()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endless_source_is_cut_off() {
        let error = bounded(io::repeat(b'#'), "standard input", None).unwrap_err();
        assert_eq!(
            error.to_string(),
            "standard input is too large: more than 1048576 bytes, the limit is 1048576 bytes"
        );
        assert_eq!(bounded(io::repeat(b'#').take(MAX_CODE_BYTES as u64), "x", None).unwrap().len(), MAX_CODE_BYTES);
    }

    #[test]
    fn text_that_is_not_utf8_names_the_place() {
        let error = text(b"ab\xff".to_vec(), "x.py").unwrap_err();
        assert_eq!(error.to_string(), "x.py is not UTF-8 text (first bad byte at offset 2)");
    }

    #[test]
    fn errors_read_like_sentences() {
        assert_eq!(described(&io::Error::from_raw_os_error(2)), "no such file or directory");
        assert_eq!(described(&io::Error::from_raw_os_error(5)), "input/output error");
    }
}
