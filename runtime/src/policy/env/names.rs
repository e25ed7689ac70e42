//! The tables that the scrub works by: which names pass, which never do, and whose values are secrets.
//!
//! Everything here is matched in upper case. A name passes only by standing in [`LISTED`]; the other tables decide why one does not pass, and whether
//! its value joins the redaction set.

/// Where a listed variable means something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    /// Everywhere: languages, names of people and profiles.
    Anywhere,
    /// Only on this machine: paths, shells, terminals.
    Here,
    /// Only on this machine, and only where it is Windows.
    Windows,
}

use Scope::{Anywhere, Here, Windows};

/// The names that pass, exactly. Families such as `LC_*` are written out, because a prefix rule would let `LC_SECRET` through.
pub(super) const LISTED: &[(&str, Scope)] = &[
    ("PATH", Here),
    ("HOME", Here),
    ("USER", Anywhere),
    ("LOGNAME", Anywhere),
    ("SHELL", Here),
    ("LANG", Anywhere),
    ("LANGUAGE", Anywhere),
    ("LC_ADDRESS", Anywhere),
    ("LC_ALL", Anywhere),
    ("LC_COLLATE", Anywhere),
    ("LC_CTYPE", Anywhere),
    ("LC_IDENTIFICATION", Anywhere),
    ("LC_MEASUREMENT", Anywhere),
    ("LC_MESSAGES", Anywhere),
    ("LC_MONETARY", Anywhere),
    ("LC_NAME", Anywhere),
    ("LC_NUMERIC", Anywhere),
    ("LC_PAPER", Anywhere),
    ("LC_TELEPHONE", Anywhere),
    ("LC_TIME", Anywhere),
    ("TERM", Here),
    ("TMPDIR", Here),
    ("TMP", Here),
    ("TEMP", Here),
    ("XDG_BIN_HOME", Here),
    ("XDG_CACHE_HOME", Here),
    ("XDG_CONFIG_DIRS", Here),
    ("XDG_CONFIG_HOME", Here),
    ("XDG_CURRENT_DESKTOP", Here),
    ("XDG_DATA_DIRS", Here),
    ("XDG_DATA_HOME", Here),
    ("XDG_DESKTOP_DIR", Here),
    ("XDG_DOCUMENTS_DIR", Here),
    ("XDG_DOWNLOAD_DIR", Here),
    ("XDG_MUSIC_DIR", Here),
    ("XDG_PICTURES_DIR", Here),
    ("XDG_PUBLICSHARE_DIR", Here),
    ("XDG_RUNTIME_DIR", Here),
    ("XDG_STATE_HOME", Here),
    ("XDG_TEMPLATES_DIR", Here),
    ("XDG_VIDEOS_DIR", Here),
    ("VIRTUAL_ENV", Here),
    ("VIRTUAL_ENV_PROMPT", Here),
    ("CONDA_DEFAULT_ENV", Here),
    ("CONDA_ENVS_PATH", Here),
    ("CONDA_EXE", Here),
    ("CONDA_PKGS_DIRS", Here),
    ("CONDA_PREFIX", Here),
    ("CONDA_PROMPT_MODIFIER", Here),
    ("CONDA_PYTHON_EXE", Here),
    ("CONDA_ROOT", Here),
    ("CONDA_SHLVL", Here),
    ("PYTHONPATH", Here),
    ("HERMES_HOME", Here),
    ("HERMES_PROFILE", Anywhere),
    ("HERMES_CONFIG", Here),
    ("HERMES_ENV", Anywhere),
    ("ALLUSERSPROFILE", Windows),
    ("APPDATA", Windows),
    ("COMMONPROGRAMFILES", Windows),
    ("COMPUTERNAME", Windows),
    ("COMSPEC", Windows),
    ("HOMEDRIVE", Windows),
    ("HOMEPATH", Windows),
    ("LOCALAPPDATA", Windows),
    ("NUMBER_OF_PROCESSORS", Windows),
    ("OS", Windows),
    ("PATHEXT", Windows),
    ("PROCESSOR_ARCHITECTURE", Windows),
    ("PROGRAMDATA", Windows),
    ("PROGRAMFILES", Windows),
    ("PROGRAMFILES(X86)", Windows),
    ("PROGRAMW6432", Windows),
    ("PUBLIC", Windows),
    ("SYSTEMDRIVE", Windows),
    ("SYSTEMROOT", Windows),
    ("USERDOMAIN", Windows),
    ("USERNAME", Windows),
    ("USERPROFILE", Windows),
    ("WINDIR", Windows),
];

/// A name that holds one of these anywhere is taken for a secret's and never passes by the list.
#[rustfmt::skip]
const SECRET_WORDS: &[&str] = &[
    "KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL", "CREDS", "AUTH", "DSN", "WEBHOOK", "BEARER", "COOKIE",
    "PRIVATE", "PASS", "PWD", "SESSION", "CERT", "CONN", "ACCESS_ID",
];

/// Services whose addresses carry a password: `DATABASE_URL` and its kin.
#[rustfmt::skip]
const URL_SERVICES: &[&str] = &[
    "AMQP", "BROKER", "CELERY", "CLICKHOUSE", "COCKROACH", "DATABASE", "DB", "ELASTIC", "JDBC", "KAFKA", "MARIADB", "MONGO",
    "MYSQL", "NATS", "PG", "POSTGRES", "RABBITMQ", "REDIS", "SENTRY", "SMTP", "SQLALCHEMY", "SUPABASE",
];
const URL_ENDINGS: &[&str] = &["URL", "URI"];

/// A part of a name (between `_`) that ends in one of these makes the value a secret. Ends, not holds: `AUTHOR`, `KEYBOARD`, `TOKENIZERS` and
/// `PASSAGE` would otherwise mask ordinary words in the output.
#[rustfmt::skip]
const VALUE_WORDS: &[&str] = &[
    "KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "PASS", "PWD", "CREDENTIAL", "CREDS", "AUTH", "DSN",
    "WEBHOOK", "BEARER", "COOKIE", "PRIVATE", "KEYS", "TOKENS", "SECRETS", "PASSWORDS", "CREDENTIALS", "COOKIES", "WEBHOOKS",
];

/// A name whose last part is one of these tells *about* a secret, or where it lies.
#[rustfmt::skip]
const ABOUT_ENDINGS: &[&str] = &[
    "ALGORITHM", "BUNDLE", "COUNT", "DIR", "ENABLED", "ENDPOINT", "EXPIRY", "FILE", "HOME", "HOST", "LENGTH", "LIMIT", "METHOD",
    "MODE", "NAME", "PATH", "PORT", "PROMPT", "REGION", "ROOT", "SOCK", "SOCKET", "TTL", "TYPE", "USER", "VERSION",
];

/// Names that hold a secret word by accident; their values are places or addresses, and masking those would shred ordinary output.
const HARMLESS: &[&str] = &["GOOGLE_APPLICATION_CREDENTIALS", "OLDPWD", "PWD", "XAUTHORITY"];

/// Credentials of model and tool providers and of the agent's own channels: never passed through, even on request. A trailing `*` is a family.
const PROVIDER_CREDENTIALS: &[&str] = &[
    "AI21_*",
    "ANTHROPIC_*",
    "ANYSCALE_*",
    "AWS_BEARER_TOKEN_BEDROCK",
    "AZURE_OPENAI_*",
    "BRAVE_API_KEY",
    "BRAVE_SEARCH_API_KEY",
    "BROWSERBASE_API_KEY",
    "CEREBRAS_*",
    "CLAUDE_CODE_OAUTH_TOKEN",
    "COHERE_*",
    "COPILOT_GITHUB_TOKEN",
    "CO_API_KEY",
    "DASHSCOPE_API_KEY",
    "DEEPINFRA_*",
    "DEEPSEEK_*",
    "DISCORD_BOT_TOKEN",
    "ELEVENLABS_API_KEY",
    "EXA_API_KEY",
    "FAL_KEY",
    "FIRECRAWL_API_KEY",
    "FIREWORKS_*",
    "GEMINI_API_KEY",
    "GH_TOKEN",
    "GITHUB_TOKEN",
    "GLM_API_KEY",
    "GOOGLE_API_KEY",
    "GOOGLE_GENERATIVE_AI_API_KEY",
    "GROQ_*",
    "HELICONE_API_KEY",
    "HF_TOKEN",
    "HONCHO_API_KEY",
    "HUGGINGFACEHUB_API_TOKEN",
    "HUGGING_FACE_HUB_TOKEN",
    "KIMI_API_KEY",
    "MINIMAX_*",
    "MISTRAL_*",
    "MOONSHOT_API_KEY",
    "NEBIUS_API_KEY",
    "NOUS_API_KEY",
    "NOVITA_API_KEY",
    "NVIDIA_API_KEY",
    "OLLAMA_API_KEY",
    "OPENAI_*",
    "OPENCODE_GO_API_KEY",
    "OPENCODE_ZEN_API_KEY",
    "OPENROUTER_*",
    "PARALLEL_API_KEY",
    "PERPLEXITY_*",
    "REPLICATE_API_TOKEN",
    "SAMBANOVA_*",
    "SEARXNG_API_KEY",
    "SERPAPI_API_KEY",
    "SERPER_API_KEY",
    "SLACK_APP_TOKEN",
    "SLACK_BOT_TOKEN",
    "SUDO_PASSWORD",
    "TAVILY_API_KEY",
    "TELEGRAM_BOT_TOKEN",
    "TINKER_API_KEY",
    "TOGETHER_*",
    "VERCEL_AI_GATEWAY_API_KEY",
    "VOYAGE_API_KEY",
    "WANDB_API_KEY",
    "XAI_*",
    "ZAI_API_KEY",
    "ZHIPUAI_API_KEY",
];

/// Whether the list lets a name pass, and where.
pub(super) fn listed(upper: &str) -> Option<Scope> {
    LISTED.iter().find(|(name, _)| *name == upper).map(|(_, scope)| *scope)
}

/// Whether a name is never passed by the list, because it may be a secret's.
pub(super) fn may_be_secret(upper: &str) -> bool {
    SECRET_WORDS.iter().any(|word| upper.contains(word)) || is_service_url(upper)
}

/// Whether the value of a variable with this name is taken for a secret.
pub(super) fn holds_secret(upper: &str) -> bool {
    let last = parts(upper).last().unwrap_or_default();
    !HARMLESS.contains(&upper)
        && !ABOUT_ENDINGS.contains(&last)
        && parts(upper).any(|part| VALUE_WORDS.iter().any(|word| part.ends_with(word)))
}

/// Whether a name is a credential that is refused even on request.
pub(super) fn is_provider_credential(upper: &str) -> bool {
    PROVIDER_CREDENTIALS.iter().any(|pattern| match pattern.strip_suffix('*') {
        Some(family) => upper.starts_with(family),
        None => upper == *pattern,
    })
}

/// `DATABASE_URL` and its kin: a service's name, then URL or URI.
fn is_service_url(upper: &str) -> bool {
    let last = parts(upper).last().unwrap_or_default();
    URL_ENDINGS.iter().any(|ending| last.ends_with(ending))
        && parts(upper).any(|part| URL_SERVICES.iter().any(|service| part.starts_with(service)))
}

fn parts(upper: &str) -> impl DoubleEndedIterator<Item = &str> {
    upper.split(['_', '-', '.'])
}
