//! What a caller asks for: one script and the conditions of its run.

use std::time::Duration;

/// One script to run, with what this run may do. Fields not set take the sandbox's configured defaults.
///
/// ```
/// use gloveport::Request;
/// let request = Request::new("print('hi')").enabled_tools(["read_file"]).timeout_secs(10.0);
/// ```
#[derive(Debug, Clone, Default)]
pub struct Request {
    /// Python source text, at most 1 MiB.
    pub code: String,
    /// Names the environment (container, SSH session, workspace) that runs share; `"default"` when absent.
    pub task_id: Option<String>,
    /// Tools that this run may call. `None` = all registered, an empty list = none.
    pub enabled_tools: Option<Vec<String>>,
    /// Seconds for the whole run; `None` = configured (300).
    pub timeout: Option<f64>,
    /// Tool calls that may be dispatched; `None` = configured (50).
    pub max_tool_calls: Option<u64>,
    /// `project` or `strict`, in any case and with blanks around; unknown text means `project` with a warning.
    pub mode: Option<String>,
    /// IANA time zone name; becomes `TZ` in the script.
    pub timezone: Option<String>,
    /// `sys.argv[1:]` of the script.
    pub args: Vec<String>,
    /// File name shown in tracebacks and as `sys.argv[0]`; `script.py` when absent.
    pub filename: Option<String>,
    /// Whether the result lists every tool call.
    pub list_tool_calls: bool,
    /// Whether a one-line hint is added to the result for the commonest failures.
    pub hints: bool,
    /// Figures that come back at most, of those that are open at the end. 0 = none, at most [`Request::MAX_FIGURES`].
    pub figures: usize,
    /// Whether a table (a pandas DataFrame or Series) that is the script's last expression is printed, as Markdown.
    pub tables: bool,
}

impl Request {
    /// Figures that a run can return.
    pub const MAX_FIGURES: usize = 20;

    /// A run of `code` with every default.
    pub fn new(code: impl Into<String>) -> Self {
        Self { code: code.into(), ..Self::default() }
    }

    /// Names the environment that this run shares with others.
    #[must_use]
    pub fn task_id(mut self, id: impl Into<String>) -> Self {
        self.task_id = Some(id.into());
        self
    }

    /// Limits the run to these tools; an empty list means none.
    #[must_use]
    pub fn enabled_tools<S: Into<String>>(mut self, tools: impl IntoIterator<Item = S>) -> Self {
        self.enabled_tools = Some(tools.into_iter().map(Into::into).collect());
        self
    }

    /// Asks for the figures that are open at the end, up to this many.
    #[must_use]
    pub fn figures(mut self, most: usize) -> Self {
        self.figures = most;
        self
    }

    /// Asks for the last expression's table as Markdown.
    #[must_use]
    pub fn tables(mut self, yes: bool) -> Self {
        self.tables = yes;
        self
    }

    /// Sets the time limit in seconds. Anything but a positive finite number is answered with an error result.
    #[must_use]
    pub fn timeout_secs(mut self, seconds: f64) -> Self {
        self.timeout = Some(seconds);
        self
    }

    /// Sets the time limit.
    #[must_use]
    pub fn timeout(self, limit: Duration) -> Self {
        self.timeout_secs(limit.as_secs_f64())
    }

    /// Sets how many tool calls may be dispatched.
    #[must_use]
    pub fn max_tool_calls(mut self, calls: u64) -> Self {
        self.max_tool_calls = Some(calls);
        self
    }

    /// Sets the mode, `project` or `strict`.
    #[must_use]
    pub fn mode(mut self, mode: impl Into<String>) -> Self {
        self.mode = Some(mode.into());
        self
    }

    /// Sets the script's time zone.
    #[must_use]
    pub fn timezone(mut self, name: impl Into<String>) -> Self {
        self.timezone = Some(name.into());
        self
    }

    /// Sets `sys.argv[1:]`.
    #[must_use]
    pub fn args<S: Into<String>>(mut self, args: impl IntoIterator<Item = S>) -> Self {
        self.args = args.into_iter().map(Into::into).collect();
        self
    }

    /// Sets the file name that tracebacks show.
    #[must_use]
    pub fn filename(mut self, name: impl Into<String>) -> Self {
        self.filename = Some(name.into());
        self
    }

    /// Asks for the list of tool calls in the result.
    #[must_use]
    pub fn list_tool_calls(mut self, yes: bool) -> Self {
        self.list_tool_calls = yes;
        self
    }

    /// Asks for a hint line in the result.
    #[must_use]
    pub fn hints(mut self, yes: bool) -> Self {
        self.hints = yes;
        self
    }
}
