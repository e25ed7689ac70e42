//! The sections of the configuration, each with its defaults.

use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{LONGEST_TIMEOUT, Secret};
use crate::approval::ApprovalMode;
use crate::output::{ExtraRule, MaskStyle, Redactor, RedactorBuilder};

/// `[limits]`: what one run may use.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Seconds for a run that asks for no time of its own.
    pub timeout: f64,
    /// Seconds that a run may ask for at most.
    pub max_timeout: f64,
    /// Tool calls that may be dispatched in one run.
    pub max_tool_calls: u64,
    /// Megabytes (2^20 bytes) of memory. Absent: 512 where the backend can bound memory; a number is refused where it can't.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<u64>,
    /// Megabytes (2^20 bytes) of private storage and of writes to the workspace. Absent: 256 where the backend can bound storage; a number is refused
    /// where it can't.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk: Option<u64>,
    /// Files and directories that a run may make.
    pub inodes: u64,
    /// Descriptors open at the same time.
    pub descriptors: u32,
    /// Bytes of one tool request.
    pub request_bytes: u64,
    /// Bytes of one tool answer.
    pub answer_bytes: u64,
    /// Tool calls under way at the same time.
    pub outstanding_calls: u32,
}

impl Limits {
    /// Megabytes of memory when none are configured.
    pub const DEFAULT_MEMORY: u64 = 512;
    /// Megabytes of storage when none are configured.
    pub const DEFAULT_DISK: u64 = 256;
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            timeout: 300.0,
            max_timeout: LONGEST_TIMEOUT,
            max_tool_calls: 50,
            memory: None,
            disk: None,
            inodes: 10_000,
            descriptors: 64,
            request_bytes: 16 << 20,
            answer_bytes: 16 << 20,
            outstanding_calls: 64,
        }
    }
}

/// `[env]`: the script's environment variables.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct EnvConfig {
    /// Variables of this process that scripts get, by exact name. Their values join the redaction set.
    pub pass: Vec<String>,
    /// `HOME` of scripts, for profiles that have a home of their own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub home: Option<PathBuf>,
}

/// `[redaction]`: what is masked in everything that leaves a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RedactionConfig {
    /// Whether anything is masked.
    pub enabled: bool,
    /// What stands in place of a masked text: `full` or `partial`.
    #[schemars(with = "String")]
    pub mask: MaskStyle,
    /// Pattern families that are looked for, by name; `default` stands for those that are on by default, and `-name` switches one off. Empty: the
    /// default ones.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub families: Vec<String>,
    /// Own patterns, each with `name` and `regex` (syntax of the `regex` crate).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<BTreeMap<String, String>>")]
    pub extra: Vec<ExtraRule>,
    /// Own values that are masked wherever they appear.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<Secret>,
}

impl Default for RedactionConfig {
    fn default() -> Self {
        Self { enabled: true, mask: MaskStyle::Full, families: Vec::new(), extra: Vec::new(), values: Vec::new() }
    }
}

impl RedactionConfig {
    /// A redactor's builder with these settings, still without known values.
    pub fn builder(&self) -> RedactorBuilder {
        Redactor::builder()
            .enabled(self.enabled)
            .mask(self.mask)
            .families(self.families.iter().cloned())
            .extra(self.extra.iter().cloned())
    }
}

/// `[output]`: how much of the output is kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct OutputConfig {
    /// Bytes of standard output in the result.
    pub max_stdout: usize,
    /// Bytes of standard error in the result.
    pub max_stderr: usize,
    /// Part of `max_stdout` that shows the start of the output, 0 to 1; the rest shows its end.
    pub head_ratio: f64,
    /// Directory for files with the whole output, redacted. Absent: no such files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spill: Option<PathBuf>,
}

impl Default for OutputConfig {
    fn default() -> Self {
        Self { max_stdout: 50_000, max_stderr: 10_000, head_ratio: 0.4, spill: None }
    }
}

/// How calls of one tool are treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ToolApproval {
    /// Never asked.
    Allow,
    /// Asked each time, unless a decision is known.
    Ask,
    /// Always refused.
    Deny,
}

/// `[approval]`: who is asked before something with effects happens.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ApprovalConfig {
    /// `off` approves, `ask` asks the approver, `deny` refuses.
    pub mode: ApprovalMode,
    /// Per tool: `allow`, `ask` or `deny`. Tools not named here are treated by what they can change.
    pub tools: BTreeMap<String, ToolApproval>,
}

/// Who answers `web_search`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SearchProvider {
    /// Nobody: the tool is not offered.
    #[default]
    None,
    /// A SearXNG instance; needs `url`, no key.
    Searxng,
    /// Brave Search.
    Brave,
    /// Tavily.
    Tavily,
    /// Exa.
    Exa,
    /// Firecrawl.
    Firecrawl,
}

/// Who answers `web_extract`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ExtractProvider {
    /// Nobody: the tool is not offered.
    #[default]
    None,
    /// The fetcher in this program.
    Builtin,
    /// Tavily.
    Tavily,
    /// Exa.
    Exa,
    /// Firecrawl.
    Firecrawl,
}

/// `[web]`: providers of the web tools.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct WebConfig {
    /// Who answers `web_search`: `none`, `searxng`, `brave`, `tavily`, `exa` or `firecrawl`.
    pub search: SearchProvider,
    /// Who answers `web_extract`: `none`, `builtin`, `tavily`, `exa` or `firecrawl`.
    pub extract: ExtractProvider,
    /// Address and key of each provider.
    pub providers: WebProviders,
}

/// `[web.providers]`: address and key of each provider.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct WebProviders {
    /// SearXNG.
    pub searxng: ProviderConfig,
    /// Brave Search.
    pub brave: ProviderConfig,
    /// Tavily.
    pub tavily: ProviderConfig,
    /// Exa.
    pub exa: ProviderConfig,
    /// Firecrawl.
    pub firecrawl: ProviderConfig,
}

impl WebProviders {
    /// Every provider with the variable that holds its key when none is configured.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &ProviderConfig)> {
        [
            ("SEARXNG_API_KEY", &self.searxng),
            ("BRAVE_API_KEY", &self.brave),
            ("TAVILY_API_KEY", &self.tavily),
            ("EXA_API_KEY", &self.exa),
            ("FIRECRAWL_API_KEY", &self.firecrawl),
        ]
        .into_iter()
    }
}

/// One provider. Its key never reaches a script and joins the redaction set.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ProviderConfig {
    /// Base address, where it is not the provider's public one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The key itself; better kept in a variable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_key: Option<Secret>,
    /// Variable of this process that holds the key. Absent: `NAME_API_KEY`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_key_env: Option<String>,
}
