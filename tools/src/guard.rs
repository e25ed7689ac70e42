//! Which paths the file tools refuse although they lie inside the workspace: what holds credentials, and what the host would execute.
//!
//! Pure text: paths are absolute and already free of links where the workspace could resolve them. Letter case and invisible characters
//! don't matter, because some file systems ignore them too.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::path::{Component, Path, PathBuf};
use std::sync::LazyLock;

/// Refuses paths by what they are for. One value is shared by the tools and by the host workspace.
#[derive(Debug, Clone, Default)]
pub struct Guard {
    /// Files and directories of the runtime: configuration, cache, images, stored decisions.
    protected: Vec<PathBuf>,
}

/// A refusal, with what the path is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refusal(pub &'static str);

impl Guard {
    /// The built-in tables, and these paths of the runtime on top.
    pub fn new(protected: impl IntoIterator<Item = PathBuf>) -> Self {
        Self { protected: protected.into_iter().collect() }
    }

    /// Why the content of `path` is not shown, if so.
    pub fn read(&self, path: &Path) -> Option<Refusal> {
        let parts = parts(path);
        if is_proc_secret(&parts) {
            return Some(Refusal("process memory or environment"));
        }
        let name = parts.last().map_or("", String::as_str);
        if is_env_file(name) || in_table(&parts, CREDENTIAL_FILES) || under_table(&parts, CREDENTIAL_DIRECTORIES) {
            return Some(Refusal("credential file"));
        }
        (is_private_key(&parts) || starts_with_any(&parts, SYSTEM_SECRETS)).then_some(Refusal("credential file"))
    }

    /// Whether a file of this name is refused in every directory. Cheap, for searches that ask about each file.
    pub(crate) fn is_secret_name(&self, name: &OsStr) -> bool {
        static SINGLE: LazyLock<HashSet<&'static str>> =
            LazyLock::new(|| CREDENTIAL_FILES.iter().copied().filter(|entry| !entry.contains('/')).collect());
        // Nearly every name is plain ASCII, which folding changes only in case and at its end: then its first letter tells that it is in no table.
        static INITIALS: LazyLock<HashSet<u8>> = LazyLock::new(|| {
            SINGLE.iter().chain(KEY_FILES).chain(&[".env"]).map(|entry| entry.as_bytes()[0]).collect()
        });
        let bytes = name.as_encoded_bytes();
        if bytes.is_ascii() && bytes.first().is_some_and(|byte| !INITIALS.contains(&byte.to_ascii_lowercase())) {
            return false;
        }
        let name = fold(&name.to_string_lossy());
        is_env_file(&name) || SINGLE.contains(name.as_str()) || is_private_key(&[name])
    }

    /// Why `path` is not written, removed or renamed, if so. A `root` that was granted inside a system directory is no longer one.
    pub fn write(&self, root: &Path, path: &Path) -> Option<Refusal> {
        let parts = parts(path);
        let root = self::parts(root);
        if self.protected.iter().any(|own| path.starts_with(own)) || under_table(&parts, RUNTIME_ENTRIES) {
            return Some(Refusal("file of the runtime"));
        }
        if SYSTEM_DIRECTORIES.iter().any(|d| starts_with_any(&parts, &[d]) && !starts_with_any(&root, &[d])) {
            return Some(Refusal("system directory"));
        }
        if parts.iter().any(|p| p == ".ssh") {
            return Some(Refusal("SSH directory"));
        }
        if is_git_internal(&parts) {
            return Some(Refusal("git hook or git configuration"));
        }
        if in_table(&parts, STARTUP_FILES) || under_table(&parts, STARTUP_DIRECTORIES) {
            return Some(Refusal("shell start-up file"));
        }
        let secret =
            in_table(&parts, CREDENTIAL_FILES) || under_table(&parts, CREDENTIAL_DIRECTORIES) || is_private_key(&parts);
        secret.then_some(Refusal("credential file"))
    }
}

/// Lower-case components without what some file systems ignore.
fn parts(path: &Path) -> Vec<String> {
    let mut parts = Vec::new();
    for component in path.components() {
        match component {
            Component::Normal(name) => parts.push(fold(&name.to_string_lossy())),
            Component::ParentDir => _ = parts.pop(),
            _ => {}
        }
    }
    parts
}

/// HFS+ ignores zero-width characters in names, and NTFS trailing dots and blanks: git refuses such look-alikes of `.git` for that reason.
fn fold(name: &str) -> String {
    let visible = name.chars().filter(
        |c| !matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'),
    );
    let folded = visible.flat_map(char::to_lowercase).collect::<String>();
    match folded.trim_end_matches(['.', ' ']) {
        "" => folded,
        trimmed => trimmed.to_owned(),
    }
}

/// Whether the path ends in one of the entries (`/`-separated components).
fn in_table(parts: &[String], table: &[&str]) -> bool {
    table.iter().any(|entry| {
        let entry: Vec<&str> = entry.split('/').collect();
        parts.len() >= entry.len() && parts[parts.len() - entry.len()..].iter().zip(&entry).all(|(a, b)| a == b)
    })
}

/// Whether one of the entries occurs anywhere in the path.
fn under_table(parts: &[String], table: &[&str]) -> bool {
    table.iter().any(|entry| {
        let entry: Vec<&str> = entry.split('/').collect();
        parts.windows(entry.len()).any(|window| window.iter().zip(&entry).all(|(a, b)| a == b))
    })
}

/// Whether the path begins with one of the entries.
fn starts_with_any(parts: &[String], table: &[&str]) -> bool {
    table.iter().any(|entry| {
        let mut entry = entry.split('/');
        let mut own = parts.iter();
        entry.all(|e| own.next().is_some_and(|p| p == e))
    })
}

/// `.env` and its variants, but not the samples that projects commit.
fn is_env_file(name: &str) -> bool {
    let Some(rest) = name.strip_prefix(".env") else { return false };
    match rest.strip_prefix('.') {
        None => rest.is_empty() || rest == "rc",
        Some(kind) => !matches!(kind, "example" | "sample" | "template" | "dist" | "defaults" | "schema"),
    }
}

/// A private key by its usual name; the public half is no secret.
fn is_private_key(parts: &[String]) -> bool {
    let Some(name) = parts.last() else { return false };
    let in_ssh = parts.len() > 1 && parts[parts.len() - 2] == ".ssh";
    let public = name.ends_with(".pub") || matches!(name.as_str(), "known_hosts" | "authorized_keys" | "config");
    KEY_FILES.contains(&name.as_str()) || in_ssh && !public
}

/// Files of `/proc` that show a process's environment or memory, for every spelling of the process.
fn is_proc_secret(parts: &[String]) -> bool {
    parts.first().is_some_and(|p| p == "proc")
        && parts.len() > 2
        && parts.iter().skip(2).any(|p| PROC_SECRETS.contains(&p.as_str()))
}

/// What git executes or takes orders from. A file called `.git` redirects git to such a directory.
fn is_git_internal(parts: &[String]) -> bool {
    let Some(at) = parts.iter().position(|p| p == ".git" || p == "git~1") else { return false };
    let inside = &parts[at + 1..];
    inside.is_empty()
        || inside.iter().any(|p| matches!(p.as_str(), "hooks" | "config" | "config.worktree" | "commondir" | "gitdir"))
}

/// The usual names of private keys.
const KEY_FILES: &[&str] = &["id_rsa", "id_dsa", "id_ecdsa", "id_ed25519", "id_ecdsa_sk", "id_ed25519_sk"];

const PROC_SECRETS: &[&str] = &[
    "environ",
    "mem",
    "maps",
    "smaps",
    "numa_maps",
    "auxv",
    "cmdline",
    "fd",
    "fdinfo",
    "map_files",
    "root",
    "cwd",
    "stack",
    "syscall",
    "pagemap",
    "clear_refs",
];

const SYSTEM_SECRETS: &[&str] = &[
    "etc/shadow",
    "etc/shadow-",
    "etc/gshadow",
    "etc/gshadow-",
    "etc/sudoers",
    "etc/sudoers.d",
    "etc/ssl/private",
    "proc/kcore",
    "proc/kallsyms",
    "dev/mem",
    "dev/kmem",
    "run/secrets",
    "var/run/secrets",
    "root/.ssh",
];

const SYSTEM_DIRECTORIES: &[&str] = &[
    "etc",
    "usr",
    "bin",
    "sbin",
    "lib",
    "lib32",
    "lib64",
    "libx32",
    "boot",
    "dev",
    "proc",
    "sys",
    "run",
    "var/run",
    "var/lib",
    "var/spool",
    "var/log",
    "var/cache",
    "opt",
    "system",
    "library",
    "private/etc",
    "private/var/db",
];

const STARTUP_FILES: &[&str] = &[
    ".bashrc",
    ".bash_profile",
    ".bash_login",
    ".bash_logout",
    ".bash_aliases",
    ".profile",
    ".zshrc",
    ".zshenv",
    ".zprofile",
    ".zlogin",
    ".zlogout",
    ".kshrc",
    ".mkshrc",
    ".cshrc",
    ".tcshrc",
    ".login",
    ".logout",
    ".xprofile",
    ".xinitrc",
    ".xsession",
    ".xsessionrc",
    ".inputrc",
    ".pam_environment",
    ".config/fish/config.fish",
    ".gitconfig",
    ".config/git/config",
    ".pythonrc",
    ".vimrc",
    ".tmux.conf",
];

const STARTUP_DIRECTORIES: &[&str] = &[
    ".config/fish/conf.d",
    ".config/autostart",
    ".config/systemd",
    ".config/environment.d",
    ".oh-my-zsh",
    ".bashrc.d",
    "library/launchagents",
    "library/launchdaemons",
];

const CREDENTIAL_FILES: &[&str] = &[
    ".netrc",
    "_netrc",
    ".pgpass",
    ".my.cnf",
    ".mylogin.cnf",
    ".git-credentials",
    ".config/git/credentials",
    ".pypirc",
    ".npmrc",
    ".htpasswd",
    ".vault-token",
    ".docker/config.json",
    ".dockercfg",
    ".kube/config",
    ".config/gh/hosts.yml",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".gem/credentials",
    ".terraformrc",
    ".terraform.d/credentials.tfrc.json",
    ".aws/credentials",
    ".aws/config",
    ".boto",
    ".s3cfg",
    ".config/rclone/rclone.conf",
    ".composer/auth.json",
    ".m2/settings.xml",
    ".gradle/gradle.properties",
    ".hermes/auth.json",
    "credentials.json",
    "service-account.json",
    "logins.json",
    "key4.db",
    "login data",
    ".wgetrc",
    ".curlrc",
    ".esmtprc",
    ".msmtprc",
    ".fetchmailrc",
    ".bash_history",
    ".zsh_history",
    ".python_history",
];

const CREDENTIAL_DIRECTORIES: &[&str] = &[
    ".gnupg",
    ".aws/sso",
    ".aws/cli/cache",
    ".azure",
    ".config/gcloud",
    ".config/op",
    ".password-store",
    ".local/share/keyrings",
    "library/keychains",
    ".config/google-chrome",
    ".mozilla/firefox",
    ".config/hub",
];

const RUNTIME_ENTRIES: &[&str] =
    &["gloveport.toml", ".gloveport", ".config/gloveport", ".cache/gloveport", ".local/state/gloveport"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn e17_what_the_host_executes_or_holds_secrets_is_not_written() {
        let guard = Guard::new([PathBuf::from("/srv/images")]);
        let cases: &[(&str, Option<&str>)] = &[
            ("/w/src/main.rs", None),
            ("/w/.env", None),
            ("/w/.gitignore", None),
            ("/w/.github/workflows/ci.yml", None),
            ("/w/config", None),
            ("/w/hooks/x", None),
            ("/w/.git/info/exclude", None),
            ("/w/etc/hosts", None),
            ("/home/u/.ssh/authorized_keys", Some("SSH directory")),
            ("/w/.git/hooks/pre-commit", Some("git hook or git configuration")),
            ("/w/.GIT/Hooks/pre-commit", Some("git hook or git configuration")),
            ("/w/.g\u{200c}it/hooks/x", Some("git hook or git configuration")),
            ("/w/sub/.git/config", Some("git hook or git configuration")),
            ("/w/.git/modules/m/hooks/x", Some("git hook or git configuration")),
            ("/w/sub/.git", Some("git hook or git configuration")),
            ("/home/u/.bashrc", Some("shell start-up file")),
            ("/home/u/.config/fish/conf.d/x.fish", Some("shell start-up file")),
            ("/home/u/.netrc", Some("credential file")),
            ("/home/u/.aws/credentials", Some("credential file")),
            ("/home/u/.gnupg/x", Some("credential file")),
            ("/etc/passwd", Some("system directory")),
            ("/w/../etc/passwd", Some("system directory")),
            ("/usr/bin/x", Some("system directory")),
            ("/w/gloveport.toml", Some("file of the runtime")),
            ("/w/.gloveport/x", Some("file of the runtime")),
            ("/srv/images/guest", Some("file of the runtime")),
        ];
        for (path, expected) in cases {
            assert_eq!(guard.write(Path::new("/w"), Path::new(path)).map(|r| r.0), *expected, "{path}");
        }
        assert_eq!(guard.write(Path::new("/usr/src/app"), Path::new("/usr/src/app/main.py")), None);
    }

    #[test]
    fn the_quick_look_at_a_name_misses_nothing() {
        let guard = Guard::default();
        let long = format!(".env.{}", "x".repeat(100));
        let keys = ["id_rsa", "id_ed25519_sk", ".env", ".env.local", ".ENV", "ID_RSA", "Id_Rsa. .", long.as_str()];
        for name in CREDENTIAL_FILES.iter().filter(|entry| !entry.contains('/')).chain(&keys) {
            assert!(guard.is_secret_name(OsStr::new(name)), "{name}");
        }
        for name in ["main.rs", "README.md", "credentials.rs", "id_card.py", ".gitignore"] {
            assert!(!guard.is_secret_name(OsStr::new(name)), "{name}");
        }
    }

    #[test]
    fn credential_stores_are_not_read() {
        let guard = Guard::default();
        let secret = "credential file";
        let cases: &[(&str, Option<&str>)] = &[
            ("/w/README", None),
            ("/w/.env.example", None),
            ("/w/.environment", None),
            ("/w/env", None),
            ("/w/.env", Some(secret)),
            ("/w/.ENV", Some(secret)),
            ("/w/.env.local", Some(secret)),
            ("/w/sub/.envrc", Some(secret)),
            ("/home/u/.ssh/id_ed25519", Some(secret)),
            ("/home/u/.ssh/work", Some(secret)),
            ("/home/u/.ssh/id_ed25519.pub", None),
            ("/home/u/.ssh/known_hosts", None),
            ("/home/u/.docker/config.json", Some(secret)),
            ("/w/config.json", None),
            ("/etc/shadow", Some(secret)),
            ("/etc/passwd", None),
            ("/proc/self/environ", Some("process memory or environment")),
            ("/proc/1/environ", Some("process memory or environment")),
            ("/proc/self/task/1/environ", Some("process memory or environment")),
            ("/proc/thread-self/mem", Some("process memory or environment")),
            ("/proc/self/fd/3", Some("process memory or environment")),
            ("/proc/cpuinfo", None),
        ];
        for (path, expected) in cases {
            assert_eq!(guard.read(Path::new(path)).map(|r| r.0), *expected, "{path}");
        }
    }
}
