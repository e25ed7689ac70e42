//! What `gloveport doctor` looks at when scripts run elsewhere: engine, image, host, Python; and what to do about what is missing.

use gloveport::backend::Backend as _;
use gloveport::config::BackendKind;
use gloveport_backends::{Hello, docker};

use super::row;
use crate::Host;
use crate::assembly::Assembly;
use crate::complaint::Complaint;
use crate::remote;

/// Task of the environment that is made for looking.
const TASK: &str = "doctor";

/// Adds what was found, in the order in which it is needed. Whether a script could run.
pub(super) fn examine(assembly: &Assembly, host: &Host, lines: &mut Vec<String>) -> Result<bool, Complaint> {
    let runtime = remote::runtime()?;
    let healthy = runtime.block_on(async {
        if assembly.config().backend == BackendKind::Docker && !engine(assembly, host, lines).await {
            return false;
        }
        start(assembly, lines).await
    });
    runtime.shutdown_timeout(remote::FAREWELL);
    Ok(healthy)
}

async fn engine(assembly: &Assembly, host: &Host, lines: &mut Vec<String>) -> bool {
    let options = &assembly.config().docker;
    let endpoint = remote::endpoint(host);
    let facts = match docker::examine(&endpoint, options).await {
        Ok(facts) => facts,
        Err(error) => {
            lines.push(row("engine", &format!("failed: {error}")));
            return false;
        }
    };
    let runc = facts.runc.map(|version| format!(", runc {version}")).unwrap_or_default();
    lines.push(row("engine", &format!("{} at {endpoint}{runc}", facts.version)));
    if let Some(weakness) = facts.weakness {
        lines.push(row("warning", &weakness));
    }
    let image = match (facts.has_image, options.pull) {
        (true, _) => options.image.clone(),
        (false, true) => format!("{} is not there yet; the first run gets it, or now: docker pull {0}", options.image),
        (false, false) => format!("failed: {} is not there. Get it with: docker pull {0}", options.image),
    };
    lines.push(row("image", &image));
    facts.has_image || options.pull
}

/// Starts an environment with a relay in it, as a run would, but no script: nobody has to approve anything.
async fn start(assembly: &Assembly, lines: &mut Vec<String>) -> bool {
    let Some(backend) = assembly.remote() else { return true };
    let started = std::time::Instant::now();
    let found = backend.probe(TASK).await;
    let took = started.elapsed();
    backend.environments().shutdown().await;
    match found {
        Ok(hello) => {
            lines.push(row("python", &python(&hello)));
            lines.push(row("isolation", &isolation(backend)));
            lines.push(row("script", &format!("can start: {:.1} s for a new environment", took.as_secs_f64())));
            true
        }
        Err(error) => {
            lines.push(row("script", &format!("failed: {error}")));
            false
        }
    }
}

fn python(hello: &Hello) -> String {
    let executable = hello.executable.as_deref().unwrap_or("at an unknown path");
    let bell = if hello.bell == "fifo" { "" } else { "; no FIFOs there, so each tool call takes some milliseconds" };
    format!("{} on {}, {executable}{bell}", hello.python, hello.platform)
}

fn isolation(backend: &gloveport_backends::RemoteBackend) -> String {
    let found = backend.capabilities();
    let held: Vec<&str> = [
        (found.memory, "memory"),
        (found.disk, "disk"),
        (found.processes, "processes"),
        (found.network_denied, "no network"),
        (found.files_confined, "files confined"),
    ]
    .into_iter()
    .filter_map(|(holds, what)| holds.then_some(what))
    .collect();
    let held = if held.is_empty() { "time only".to_owned() } else { held.join(", ") };
    let asks = if found.needs_approval { "; scripts need approval" } else { "" };
    format!("{} (enforced: {held}{asks})", found.isolation)
}
