//! Whom to connect to. Checked against a pattern before anything is started, because ssh takes words with a dash for options.

use std::fmt;

/// A checked destination.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    user: Option<String>,
    host: String,
    port: Option<u16>,
}

impl Target {
    /// Reads `user@host`, `host` or `ssh://user@host:port`. `port` counts if the text names none.
    pub fn parse(text: &str, port: Option<u16>) -> Result<Self, String> {
        let bad = |why: &str| Err(format!("The ssh host {text:?} is not usable: {why}."));
        let (rest, is_url) = text.strip_prefix("ssh://").map_or((text, false), |rest| (rest, true));
        let (user, rest) = match rest.rsplit_once('@') {
            Some((user, rest)) => (Some(user), rest),
            None => (None, rest),
        };
        let (host, named) = if is_url { split_port(rest.trim_end_matches('/')) } else { (rest, None) };
        let named = match named.map(str::parse) {
            Some(Ok(port)) => Some(port),
            Some(Err(_)) => return bad("its port is not a number"),
            None => None,
        };
        if host.is_empty() {
            return bad("the host is missing; write user@host or a name from your ssh configuration");
        }
        if !is_word(host, "._-:%") || user.is_some_and(|user| !is_word(user, "._-")) {
            return bad("letters, digits, '.', '_' and '-' make up a host or a user, and it does not begin with '-'");
        }
        Ok(Self { user: user.map(str::to_owned), host: host.to_owned(), port: named.or(port) })
    }

    /// The host alone.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The user, if named.
    pub fn user(&self) -> Option<&str> {
        self.user.as_deref()
    }

    /// The port, if named.
    pub fn port(&self) -> Option<u16> {
        self.port
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(user) = &self.user {
            write!(f, "{user}@")?;
        }
        f.write_str(&self.host)?;
        match self.port {
            Some(port) => write!(f, ":{port}"),
            None => Ok(()),
        }
    }
}

fn split_port(rest: &str) -> (&str, Option<&str>) {
    if let Some((host, after)) = rest.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        return (host, after.strip_prefix(':'));
    }
    match rest.rsplit_once(':') {
        Some((host, port)) => (host, Some(port)),
        None => (rest, None),
    }
}

fn is_word(text: &str, extra: &str) -> bool {
    let fine = |c: char| c.is_ascii_alphanumeric() || extra.contains(c);
    !text.is_empty() && text.len() <= 255 && !text.starts_with('-') && text.chars().all(fine)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn e27_only_plain_names_pass() {
        for good in [
            "host",
            "me@host",
            "me@10.0.0.1",
            "ssh://me@host:2222",
            "ssh://[::1]:22",
            "build-1.example.org",
            "fe80::1%eth0",
        ] {
            assert!(Target::parse(good, None).is_ok(), "{good}");
        }
        let bad = [
            "",
            "@",
            "me@",
            "-oProxyCommand=id",
            "me@-oProxyCommand=id",
            "-l@host",
            "a b",
            "a;id",
            "$(id)",
            "`id`",
            "a\nb",
            "ho'st",
            "ssh://host:x",
            "ssh://host:99999",
            "a|b",
            "me@ho st",
            "ü@host",
            "host/path",
        ];
        for bad in bad {
            assert!(Target::parse(bad, None).is_err(), "{bad}");
        }
    }

    #[test]
    fn parts() {
        let target = Target::parse("ssh://me@host:2222", Some(1)).unwrap();
        assert_eq!((target.user(), target.host(), target.port()), (Some("me"), "host", Some(2222)));
        assert_eq!(Target::parse("me@host", Some(1)).unwrap().to_string(), "me@host:1");
    }
}
