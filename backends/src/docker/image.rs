//! The image: looked for, and pulled when it is not there.

use std::sync::Arc;
use std::time::Duration;

use bollard::Docker;
use bollard::errors::Error;
use bollard::query_parameters::CreateImageOptionsBuilder;
use futures_util::StreamExt as _;
use gloveport::backend::BackendError;
use tokio::time::timeout;

use super::{DockerOptions, engine_error};

/// A pull that brings nothing for this long is given up.
const STALLED: Duration = Duration::from_secs(120);

/// Told about a pull: what happens, bytes so far, bytes in all (0 = unknown).
pub type Progress = Arc<dyn Fn(&str, u64, u64) + Send + Sync>;

/// Makes sure that the image is there.
pub(super) async fn ensure(
    docker: &Docker,
    endpoint: &str,
    options: &DockerOptions,
    progress: Option<&Progress>,
) -> Result<(), BackendError> {
    match docker.inspect_image(&options.image).await {
        Ok(_) => Ok(()),
        Err(Error::DockerResponseServerError { status_code: 404, .. }) if options.pull => {
            pull(docker, options, progress).await
        }
        Err(Error::DockerResponseServerError { status_code: 404, .. }) => {
            Err(BackendError::setup(format!("The image {} is not there. Get it with: docker pull {0}", options.image)))
        }
        Err(error) => Err(engine_error(endpoint, error)),
    }
}

async fn pull(docker: &Docker, options: &DockerOptions, progress: Option<&Progress>) -> Result<(), BackendError> {
    let failed = |why: &str| {
        BackendError::setup(format!(
            "The image {} could not be pulled: {why}. Choose another with `image`, or load it.",
            options.image
        ))
    };
    // Without a tag the engine would pull every tag there is.
    let tagged = options.image.contains('@') || options.image.rsplit('/').next().is_some_and(|name| name.contains(':'));
    let image = if tagged { options.image.clone() } else { format!("{}:latest", options.image) };
    let wanted = CreateImageOptionsBuilder::default().from_image(&image).build();
    let mut steps = docker.create_image(Some(wanted), None, None);
    loop {
        match timeout(STALLED, steps.next()).await {
            Err(_elapsed) => return Err(failed("nothing came any more")),
            Ok(None) => return Ok(()),
            Ok(Some(Err(error))) => return Err(failed(&error.to_string())),
            Ok(Some(Ok(step))) => {
                if let Some(message) = step.error_detail.and_then(|detail| detail.message) {
                    return Err(failed(&message));
                }
                if let (Some(progress), Some(status)) = (progress, &step.status) {
                    let bytes = |n: Option<i64>| n.and_then(|n| u64::try_from(n).ok()).unwrap_or(0);
                    let detail = step.progress_detail.unwrap_or_default();
                    progress(status, bytes(detail.current), bytes(detail.total));
                }
            }
        }
    }
}
