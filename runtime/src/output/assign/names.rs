//! Names that say that their value is secret.

/// What a name says about its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::output) enum Kind {
    /// A password: may be short and readable.
    Password,
    /// A secret, a token, or a key that a qualifier makes a secret one.
    Key,
    /// A key with a qualifier that says nothing.
    SomeKey,
    /// Just `key`, `session` or `signature`, which are secret only where they look very much like it.
    PlainKey,
}

/// Literals of which every such name holds one.
pub(super) const STEMS: &[&str] = &[
    "key", "token", "secret", "pass", "pwd", "pw", "cred", "auth", "cookie", "session", "sig", "jwt", "bearer", "sid",
];

/// Words that may follow the one that counts.
const SUFFIXES: &[&str] = &[
    "value",
    "val",
    "string",
    "str",
    "plain",
    "plaintext",
    "text",
    "raw",
    "b64",
    "base64",
    "hex",
    "encoded",
    "prod",
    "production",
    "dev",
    "test",
    "live",
    "staging",
    "old",
    "new",
    "current",
    "default",
    "header",
    "env",
    "var",
    "backup",
    "primary",
    "secondary",
    "main",
];

const PASSWORDS: &[&str] =
    &["password", "passwd", "passphrase", "passcode", "pass", "pwd", "pw", "passwords", "userpass", "dbpass"];

const SECRETS: &[&str] = &[
    "secret",
    "secrets",
    "credential",
    "credentials",
    "creds",
    "cred",
    "token",
    "jwt",
    "bearer",
    "apikey",
    "secretkey",
    "accesskey",
    "privatekey",
    "authkey",
    "authtoken",
    "appkey",
    "apitoken",
    "accesstoken",
    "masterkey",
    "sharedkey",
    "signingkey",
    "encryptionkey",
    "accountkey",
];

/// Tokens that are positions, symbols or defences against forgery, and belong in a result.
const PLAIN_TOKENS: &[&str] = &[
    "next",
    "page",
    "continuation",
    "sync",
    "start",
    "cursor",
    "resume",
    "pagination",
    "stop",
    "eos",
    "bos",
    "pad",
    "unk",
    "mask",
    "cls",
    "sep",
    "special",
    "current",
    "first",
    "last",
    "prev",
    "previous",
    "peek",
    "end",
    "max",
    "no",
];

/// Words before `key` that make it a secret one.
const SECRET_KEYS: &[&str] = &[
    "api",
    "access",
    "secret",
    "private",
    "encryption",
    "encrypt",
    "decryption",
    "signing",
    "sign",
    "auth",
    "service",
    "account",
    "master",
    "app",
    "application",
    "client",
    "license",
    "licence",
    "deploy",
    "deployment",
    "shared",
    "ssh",
    "session",
    "admin",
    "subscription",
    "consumer",
    "webhook",
    "user",
    "server",
    "bot",
    "root",
    "storage",
    "functions",
    "aes",
    "hmac",
    "rsa",
    "jwt",
    "crypto",
    "vault",
    "merchant",
    "write",
    "read",
    "ingest",
    "integration",
    "project",
    "publish",
    "team",
    "org",
    "rest",
    "oauth",
    "totp",
    "symmetric",
    "symmetrickey",
    "pgp",
    "gpg",
    "tls",
    "ssl",
    "wallet",
    "security",
    "authentication",
    "provisioning",
    "pre",
];

/// Words before `key` that make it a plain one.
const PLAIN_KEYS: &[&str] = &[
    "primary",
    "foreign",
    "public",
    "sort",
    "partition",
    "cache",
    "dict",
    "group",
    "index",
    "row",
    "column",
    "map",
    "hash",
    "shortcut",
    "hot",
    "arrow",
    "escape",
    "object",
    "route",
    "unique",
    "composite",
    "parent",
    "child",
    "sub",
    "super",
    "meta",
    "ctrl",
    "control",
    "alt",
    "shift",
    "enter",
    "tab",
    "home",
    "end",
    "page",
    "function",
    "idempotency",
    "host",
    "translation",
    "lookup",
    "search",
    "config",
    "json",
    "registry",
    "order",
    "bucket",
    "candidate",
    "natural",
    "surrogate",
    "item",
    "node",
    "file",
    "label",
    "modifier",
    "message",
    "metadata",
    "param",
    "option",
    "property",
    "attribute",
    "field",
    "yaml",
    "toml",
    "header",
    "feature",
    "state",
    "i18n",
    "l10n",
    "storage_path",
    "path",
    "any",
    "each",
    "no",
    "missing",
    "unknown",
    "duplicate",
    "invalid",
    "by",
    "of",
    "per",
    "dedup",
    "dedupe",
    "tag",
    "first",
    "last",
    "next",
    "prev",
];

/// Endings of names written in one word.
const ENDINGS: &[(&str, Kind)] = &[
    ("password", Kind::Password),
    ("passwd", Kind::Password),
    ("passphrase", Kind::Password),
    ("passcode", Kind::Password),
    ("secret", Kind::Key),
    ("apikey", Kind::Key),
    ("secretkey", Kind::Key),
    ("accesskey", Kind::Key),
    ("privatekey", Kind::Key),
    ("credentials", Kind::Key),
    ("authtoken", Kind::Key),
    ("accesstoken", Kind::Key),
    ("token", Kind::SomeKey),
];

/// What a name without dots says, if anything.
pub(super) fn kind(name: &[u8]) -> Option<Kind> {
    let words = words(name);
    let mut count = words.len();
    while count > 1 && is_suffix(&words[count - 1]) {
        count -= 1;
    }
    let (last, before) = words[..count].split_last()?;
    let previous = before.last().map(String::as_str);
    let is_any = |list: &[&str], word: &str| list.contains(&word);
    let last = last.as_str();
    if is_any(PASSWORDS, last) {
        return Some(Kind::Password);
    }
    if last == "token" && previous.is_some_and(|word| is_any(PLAIN_TOKENS, word)) {
        return None;
    }
    if last == "credentials" && matches!(previous, Some("allow" | "with" | "include" | "same")) {
        return None;
    }
    if is_any(SECRETS, last) || last == "id" && previous == Some("secret") {
        return Some(Kind::Key);
    }
    match (last, previous) {
        ("auth" | "authorization", Some(_)) => Some(Kind::SomeKey),
        ("key" | "auth" | "authorization", None)
        | ("session" | "signature" | "sig" | "sid" | "sessionid" | "cookie", _) => Some(Kind::PlainKey),
        ("id", Some("session")) => Some(Kind::PlainKey),
        ("key", Some(word)) if is_any(PLAIN_KEYS, word) => None,
        ("key", Some(word)) if is_any(SECRET_KEYS, word) => Some(Kind::Key),
        ("key", Some(_)) => Some(Kind::SomeKey),
        _ => ENDINGS.iter().find(|(ending, _)| last.ends_with(ending)).map(|(_, kind)| *kind),
    }
}

/// Whether a word before `key` makes it a secret one.
pub(super) fn qualifies(word: &[u8]) -> bool {
    let word = String::from_utf8_lossy(word).to_ascii_lowercase();
    SECRET_KEYS.contains(&word.as_str())
}

fn is_suffix(word: &str) -> bool {
    SUFFIXES.contains(&word) || word.bytes().all(|byte| byte.is_ascii_digit())
}

/// The words of `snake_case`, `kebab-case`, `camelCase` and `HTTPHeader`, in lower case.
fn words(name: &[u8]) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    for (at, byte) in name.iter().enumerate() {
        let next_is_lower = name.get(at + 1).is_some_and(u8::is_ascii_lowercase);
        let previous = at.checked_sub(1).map(|before| name[before]);
        let is_hump = byte.is_ascii_uppercase()
            && previous.is_some_and(|previous| {
                previous.is_ascii_lowercase()
                    || previous.is_ascii_digit()
                    || previous.is_ascii_uppercase() && next_is_lower
            });
        if matches!(byte, b'_' | b'-') || is_hump {
            words.extend((!word.is_empty()).then(|| std::mem::take(&mut word)));
        }
        if !matches!(byte, b'_' | b'-') {
            word.push(char::from(byte.to_ascii_lowercase()));
        }
    }
    words.extend((!word.is_empty()).then_some(word));
    words
}
