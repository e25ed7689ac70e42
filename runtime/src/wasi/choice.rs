//! `image = "auto"`: the image that has what a script imports.
//!
//! The imports are parsed, by the parser of the Python that would run them: the slim guest reads the script in an instance of its own, which costs
//! half a millisecond. That happens only when a built image has a module whose name stands somewhere in the script.

use std::cmp::Reverse;
use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use super::engine::{Loaded, Shared};
use super::images::Stored;
use super::run;
use crate::backend::{BackendError, ByteSink, ExitCause, RunIo, Stream};
use crate::dispatch::CallPort;
use crate::job::{Job, Mode};

/// Prints the top-level modules that the script in `sys.argv[1]` imports anywhere, one a line. A script that can't be parsed imports nothing.
const PARSER: &str = "\
import ast, sys
names = set()
try:
    tree = ast.parse(sys.argv[1])
except (SyntaxError, ValueError, RecursionError, MemoryError):
    sys.exit()
for node in ast.walk(tree):
    if isinstance(node, ast.Import):
        names.update(alias.name.partition('.')[0] for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
        names.add(node.module.partition('.')[0])
print('\\n'.join(sorted(names)))
";
/// More names than this are no program's imports.
const MAX_NAMES_BYTES: usize = 64 << 10;

/// The image for a job.
pub(super) async fn choose(shared: &Shared, job: &Job, calls: &CallPort) -> Result<Arc<Loaded>, BackendError> {
    let first = Arc::clone(shared.images.first());
    let mentioned = |image: &Stored| image.manifest.modules.iter().any(|name| job.code.contains(name.as_str()));
    let candidates: Vec<Stored> = shared.images.candidates().into_iter().filter(mentioned).collect();
    if candidates.is_empty() {
        return Ok(first);
    }
    let imported = imports(shared, &first, job, calls.clone()).await?;
    let most = |image: &Stored| image.manifest.modules.iter().filter(|name| imported.contains(*name)).count();
    // Of images that have the same number of them, the one with the least beside; of those, the first by name.
    let rank = |image: &&Stored| (most(image), Reverse(image.manifest.modules.len()));
    let best = candidates.iter().rev().max_by_key(rank).filter(|image| most(image) > 0);
    match best {
        Some(image) => {
            tracing::info!(image = image.manifest.name, "the script imports what this image has");
            shared.images.open(image)
        }
        None => Ok(first),
    }
}

async fn imports(shared: &Shared, image: &Loaded, job: &Job, calls: CallPort) -> Result<HashSet<String>, BackendError> {
    let names = Arc::new(Names::default());
    let io = RunIo { output: names.clone(), calls, image: Arc::default(), show: Arc::default() };
    let parsing = Job {
        code: Arc::from(PARSER),
        args: vec![job.code.to_string()],
        env: Vec::new(),
        timezone: None,
        mode: Mode::Strict,
        workspace: None,
        site_packages: Vec::new(),
        ..job.clone()
    };
    let exit = run::run_in(shared, image, &parsing, io).await?;
    if exit.cause != ExitCause::Code(0) {
        return Ok(HashSet::new());
    }
    let text = names.0.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(String::from_utf8_lossy(&text).lines().map(str::to_owned).collect())
}

/// Keeps what the parser prints.
#[derive(Default)]
struct Names(Mutex<Vec<u8>>);

impl ByteSink for Names {
    fn write(&self, stream: Stream, bytes: &[u8]) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if stream == Stream::Stdout && kept.len() + bytes.len() <= MAX_NAMES_BYTES {
            kept.extend_from_slice(bytes);
        }
    }
}
