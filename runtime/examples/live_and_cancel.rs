//! Output while the script runs, and a script that is stopped from outside.

use std::sync::Arc;
use std::time::Duration;

use gloveport::{Cancel, Controls, Request, Sandbox, Status};

const SCRIPT: &str = r#"
import time
for second in range(1, 100):
    print("working", second)
    time.sleep(0.2)
"#;

#[tokio::main]
#[expect(clippy::print_stdout, reason = "an example shows what happens")]
async fn main() -> Result<(), gloveport::BuildError> {
    let sandbox = Sandbox::builder().build()?;
    let cancel = Cancel::new();
    let stopper = cancel.clone();
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_secs(1)).await;
        stopper.cancel_with("the user pressed stop");
    });
    let controls =
        Controls { cancel: Some(cancel), live: Some(Arc::new(|stream, text| println!("{stream:?}: {text}"))) };
    let result = sandbox.execute_with(Request::new(SCRIPT), controls).await;
    println!("{}", result.to_json());
    assert_eq!(result.status, Status::Interrupted);
    Ok(())
}

#[test]
fn runs() {
    main().expect("the example runs");
}
