//! What an engine is, for `gloveport doctor`, and whether its runtime has a known hole.

use bollard::Docker;
use bollard::errors::Error;
use gloveport::backend::BackendError;

use super::{DockerOptions, endpoint, engine_error};

/// First releases of runc, one of each line, in which CVE-2025-31133, CVE-2025-52565 and CVE-2025-52881 are mended: a container
/// could write to files of the host by way of masked paths and `/dev/console`. Later lines are sound from their start.
const SOUND_RUNC: [(u32, u32, u32); 2] = [(1, 2, 8), (1, 3, 3)];

/// What was found out about an engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EngineFacts {
    /// Its name and version: `Docker 26.1.5`.
    pub version: String,
    /// Version of runc, where the engine tells.
    pub runc: Option<String>,
    /// A known hole of its runtime, as a sentence.
    pub weakness: Option<String>,
    /// Whether the configured image is there.
    pub has_image: bool,
}

/// Asks an engine what it is. Errors say what to do.
pub async fn examine(endpoint: &str, options: &DockerOptions) -> Result<EngineFacts, BackendError> {
    let docker = endpoint::connect(endpoint).await?;
    let version = docker.version().await.map_err(|error| engine_error(endpoint, error))?;
    let has_image = match docker.inspect_image(&options.image).await {
        Ok(_) => true,
        Err(Error::DockerResponseServerError { status_code: 404, .. }) => false,
        Err(error) => return Err(engine_error(endpoint, error)),
    };
    let components = version.components.unwrap_or_default();
    let podman = components.iter().any(|component| component.name.contains("Podman"));
    let runc = runc(components.iter().map(|component| (component.name.as_str(), component.version.as_str())));
    Ok(EngineFacts {
        version: format!("{} {}", if podman { "Podman" } else { "Docker" }, version.version.unwrap_or_default()),
        weakness: runc.as_deref().and_then(judge),
        runc,
        has_image,
    })
}

/// A known hole of the engine's runtime. An engine that does not tell has none that is known.
pub(super) async fn weakness(docker: &Docker) -> Option<String> {
    let components = docker.version().await.ok()?.components?;
    judge(&runc(components.iter().map(|component| (component.name.as_str(), component.version.as_str())))?)
}

fn runc<'a>(mut components: impl Iterator<Item = (&'a str, &'a str)>) -> Option<String> {
    components.find(|(name, _)| *name == "runc").map(|(_, version)| version.to_owned())
}

fn judge(version: &str) -> Option<String> {
    let numbers = numbers(version)?;
    let (major, minor, ..) = numbers;
    let newest_line = SOUND_RUNC[SOUND_RUNC.len() - 1];
    let sound = match SOUND_RUNC.iter().find(|first| (first.0, first.1) == (major, minor)) {
        Some(first) => numbers >= (first.0, first.1, first.2, true),
        None => (major, minor) > (newest_line.0, newest_line.1),
    };
    (!sound).then(|| {
        format!(
            "runc {version} is older than 1.2.8 and 1.3.3, so a hostile script may get out of its container (CVE-2025-31133, \
             CVE-2025-52565, CVE-2025-52881). Update it, unless your distribution has mended its own version"
        )
    })
}

/// `1.1.15+ds1-2` as numbers, and whether it is a release: a candidate comes before it.
fn numbers(version: &str) -> Option<(u32, u32, u32, bool)> {
    let end = version.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(version.len());
    let (plain, rest) = version.split_at(end);
    let mut parts = plain.split('.').map(|part| part.parse::<u32>());
    Some((parts.next()?.ok()?, parts.next()?.ok()?, parts.next()?.ok()?, !rest.starts_with("-rc")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn e26_old_runtimes_are_told() {
        for old in ["1.1.5+ds1", "1.1.15", "1.2.7", "1.3.2", "1.3.0-rc.1", "0.9.9", "1.2.8-rc.1"] {
            assert!(judge(old).is_some(), "{old}");
        }
        for sound in ["1.2.8", "1.2.9", "1.3.3", "1.3.10-0ubuntu1", "1.4.0", "2.0.0"] {
            assert_eq!(judge(sound), None, "{sound}");
        }
        assert_eq!(judge("unknown"), None);
    }
}
