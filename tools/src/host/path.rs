//! From the text of a path to a path relative to the root handle. Pure: nothing outside the workspace is ever looked at.

use std::path::{Component, Path, PathBuf};

/// The ways in which the root may be spelled by a script.
#[derive(Debug, Clone)]
pub(crate) struct Roots {
    /// Absolute, without `.` and `..`; the first one is what scripts see.
    pub(crate) spellings: Vec<PathBuf>,
    /// What `~` stands for.
    pub(crate) home: Option<PathBuf>,
}

impl Roots {
    /// The path under the root handle, or `None` when the text leads outside. Links are not looked at here: the handle confines them.
    pub(crate) fn relative(&self, path: &str) -> Option<PathBuf> {
        let expanded = self.expand_home(path);
        let path = expanded.as_deref().unwrap_or(Path::new(path));
        if !path.is_absolute() && !climbs(path) {
            return Some(or_dot(path.to_owned()));
        }
        let absolute = self.spellings.first()?.join(path);
        self.strip(&absolute).filter(|rest| !climbs(rest)).or_else(|| self.strip(&clean(&absolute)))
    }

    fn strip(&self, path: &Path) -> Option<PathBuf> {
        self.spellings.iter().find_map(|root| path.strip_prefix(root).ok()).map(|rest| or_dot(rest.to_owned()))
    }

    fn expand_home(&self, path: &str) -> Option<PathBuf> {
        let rest = path.strip_prefix('~')?;
        let home = self.home.as_ref()?;
        match rest.strip_prefix('/') {
            Some(rest) => Some(home.join(rest.trim_start_matches('/'))),
            None => rest.is_empty().then(|| home.clone()),
        }
    }
}

fn or_dot(path: PathBuf) -> PathBuf {
    if path.as_os_str().is_empty() { PathBuf::from(".") } else { path }
}

/// Whether `..` ever leads above the start.
fn climbs(path: &Path) -> bool {
    let mut depth = 0i64;
    path.components().any(|component| {
        match component {
            Component::Normal(_) => depth += 1,
            Component::ParentDir => depth -= 1,
            _ => {}
        }
        depth < 0
    })
}

/// Resolves `.` and `..` by text alone.
pub(crate) fn clean(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => _ = out.pop(),
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn e2_e3_paths_are_inside_or_nothing() {
        let roots =
            Roots { spellings: vec!["/link/ws".into(), "/data/ws".into()], home: Some(PathBuf::from("/data/ws/home")) };
        let cases: &[(&str, Option<&str>)] = &[
            ("a/b", Some("a/b")),
            (".", Some(".")),
            ("./a/.././../x", None),
            ("./a/.././x", Some("./a/.././x")),
            ("..", None),
            ("../ws/a", Some("a")),
            ("/link/ws", Some(".")),
            ("/link/ws/", Some(".")),
            ("/link//ws/./a", Some("a")),
            ("/data/ws/a", Some("a")),
            ("/data/ws/../ws/a", Some("a")),
            ("/data/ws/../../etc/passwd", None),
            ("/data/wsx", None),
            ("/etc/passwd", None),
            ("/", None),
            ("~/a", Some("home/a")),
            ("~", Some("home")),
            ("~root/a", Some("~root/a")),
            ("/data/ws/../../../../../../../etc", None),
        ];
        for (path, expected) in cases {
            assert_eq!(roots.relative(path).as_deref(), expected.map(Path::new), "{path}");
        }
    }
}
