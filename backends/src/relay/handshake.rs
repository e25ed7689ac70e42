//! From a fresh process on a remote to a relay that has said hello.

use std::time::Duration;

use bytes::BytesMut;
use gloveport::backend::BackendError;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::timeout;

use super::Hello;
use crate::bundle::{self, Marker, OLDEST_PYTHON, RelayOptions};
use crate::frame::{FromRelay, decode};
use crate::random;
use crate::remote::{Link, Remote, StderrTail, printable};

/// How long a Python may take to say its version, and a relay to say hello.
const PATIENCE: Duration = Duration::from_secs(10);
/// Login banners and chatty start-up files are skipped up to here.
const MAX_NOISE: usize = 64 << 10;
/// `3.12.1 linux;`
const MAX_BANNER: usize = 64;
/// What a first frame may take.
const MAX_HELLO: usize = 64 << 10;
/// Characters of foreign text in a message.
const MAX_QUOTED: usize = 300;

/// Starts a relay and returns its link, what it said, and bytes that came behind.
pub(super) async fn shake(
    remote: &dyn Remote,
    python: &str,
    options: &RelayOptions,
) -> Result<(Link, Hello, BytesMut), BackendError> {
    let marker = Marker::new(random::bytes()?);
    let mut link = remote.open(&bundle::argv(python, &marker)).await?;
    let place = Place { label: remote.label(), python };
    let mut seen = BytesMut::new();
    let version = match timeout(PATIENCE, banner(&mut link, &marker, &mut seen)).await {
        Ok(Ok(version)) => version,
        Ok(Err(trouble)) => return Err(place.no_python(&trouble, &seen, link.stderr).await),
        Err(_elapsed) => {
            let trouble = format!("it said nothing within {} s", PATIENCE.as_secs());
            return Err(place.no_python(&trouble, &seen, link.stderr).await);
        }
    };
    place.check_version(&version)?;
    let hello = timeout(PATIENCE, hello(&mut link, options, &mut seen)).await;
    match hello {
        Ok(Ok(hello)) => place.check_hello(hello).map(|hello| (link, hello, seen)),
        Ok(Err(trouble)) => Err(place.no_relay(&trouble, &link.stderr)),
        Err(_elapsed) => Err(place.no_relay("no answer in time", &link.stderr)),
    }
}

/// Skips noise up to the marker and reads `3.12.1 linux;` behind it.
async fn banner(link: &mut Link, marker: &Marker, seen: &mut BytesMut) -> Result<String, String> {
    let wanted = marker.text();
    loop {
        if let Some(at) = find(seen, wanted.as_bytes()) {
            let behind = &seen[at + wanted.len()..];
            if let Some(end) = behind.iter().take(MAX_BANNER).position(|byte| *byte == b';') {
                let version = String::from_utf8_lossy(&behind[..end]).into_owned();
                let used = at + wanted.len() + end + 1;
                let _noise = seen.split_to(used);
                return Ok(version);
            }
            if behind.len() >= MAX_BANNER {
                return Err("its version can't be read".to_owned());
            }
        }
        if seen.len() > MAX_NOISE {
            return Err(format!("it printed more than {} KiB before anything else", MAX_NOISE >> 10));
        }
        match link.reader.read_buf(seen).await {
            Ok(0) => return Err("it ended at once".to_owned()),
            Ok(_) => {}
            Err(error) => return Err(error.to_string()),
        }
    }
}

async fn hello(link: &mut Link, options: &RelayOptions, seen: &mut BytesMut) -> Result<Hello, String> {
    let text = bundle::text(options);
    link.writer.write_all(&text).await.map_err(|error| error.to_string())?;
    link.writer.flush().await.map_err(|error| error.to_string())?;
    loop {
        match decode(seen, MAX_HELLO).map_err(|error| error.to_string())? {
            Some(frame) if frame.kind == FromRelay::Hello => {
                return serde_json::from_slice(&frame.payload).map_err(|error| error.to_string());
            }
            Some(_) => return Err("its first frame is not a greeting".to_owned()),
            None => {}
        }
        match link.reader.read_buf(seen).await {
            Ok(0) => return Err("it ended".to_owned()),
            Ok(_) => {}
            Err(error) => return Err(error.to_string()),
        }
    }
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).position(|window| window == needle)
}

struct Place<'a> {
    label: String,
    python: &'a str,
}

impl Place<'_> {
    async fn no_python(&self, trouble: &str, seen: &[u8], stderr: StderrTail) -> BackendError {
        // The error stream is read by another task, which may be a moment behind.
        tokio::time::sleep(Duration::from_millis(100)).await;
        let Self { label, python } = self;
        let (major, minor) = OLDEST_PYTHON;
        let stderr = stderr.text();
        let words = if stderr.is_empty() { printable(seen) } else { stderr };
        // Python 2 does not know the option that keeps an account's own code out.
        if words.contains("Unknown option: -I") {
            return BackendError::setup(format!(
                "Python {major}.{minor} or newer is needed on {label}, but '{python}' there is Python 2."
            ));
        }
        let found =
            if words.is_empty() { String::from("nothing was printed") } else { format!("found: {}", cut(&words)) };
        BackendError::setup(format!(
            "Python {major}.{minor} or newer is needed on {label}, but '{python}' did not start there: {trouble}; {found}."
        ))
    }

    fn check_version(&self, banner: &str) -> Result<(), BackendError> {
        let version = banner.split(' ').next().unwrap_or_default();
        let mut numbers = version.split('.').map(|n| n.parse::<u32>().ok());
        let found = (numbers.next().flatten(), numbers.next().flatten());
        let (major, minor) = OLDEST_PYTHON;
        if let (Some(a), Some(b)) = found
            && (a, b) >= OLDEST_PYTHON
        {
            return Ok(());
        }
        let Self { label, python } = self;
        let shown = cut(&printable(version.as_bytes()));
        Err(BackendError::setup(format!(
            "Python {major}.{minor} or newer is needed on {label}, but '{python}' there is Python {shown}."
        )))
    }

    fn check_hello(&self, hello: Hello) -> Result<Hello, BackendError> {
        match &hello.trouble {
            Some(trouble) if hello.place.is_none() => {
                let trouble = cut(&printable(trouble.as_bytes()));
                Err(BackendError::setup(format!("Nothing can be run on {}: {trouble}.", self.label)))
            }
            _ => Ok(hello),
        }
    }

    fn no_relay(&self, trouble: &str, stderr: &StderrTail) -> BackendError {
        let words = stderr.text();
        let said = if words.is_empty() { String::new() } else { format!("; it said: {}", cut(&words)) };
        BackendError::setup(format!("The relay did not start on {}: {trouble}{said}.", self.label))
    }
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(MAX_QUOTED) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
