//! A server's way: a pool of ready slots, many scripts at once, one `Sandbox` that is cloned freely.

use std::ffi::OsString;
use std::sync::Arc;

use gloveport::wasi::{Allocation, WasiBackend, WasiOptions};
use gloveport::{Request, Sandbox, Status};

#[tokio::main]
#[expect(clippy::print_stdout, reason = "an example shows its result")]
async fn main() -> Result<(), gloveport::BuildError> {
    // Directories only; nothing of this list reaches a script.
    let environment: Vec<(OsString, OsString)> = Vec::new();
    let options = WasiOptions { allocation: Allocation::Pooled(16), ..WasiOptions::from_environment(&environment) };
    let sandbox = Sandbox::builder().backend(Arc::new(WasiBackend::new(&options)?)).build()?;
    let runs: Vec<_> = (0..100)
        .map(|n| {
            let sandbox = sandbox.clone();
            tokio::spawn(async move { sandbox.execute(Request::new(format!("print({n} ** 2)"))).await })
        })
        .collect();
    for (n, run) in runs.into_iter().enumerate() {
        let result = run.await.expect("a run never panics");
        assert_eq!(result.status, Status::Success);
        assert_eq!(result.output.map(String::from), Some(format!("{}\n", n * n)));
    }
    println!("100 scripts, each in a sandbox of its own");
    Ok(())
}

#[test]
fn runs() {
    main().expect("the example runs");
}
