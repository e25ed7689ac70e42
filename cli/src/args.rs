//! What can be typed. Nothing is decided here: each option is kept as it came, so that one place later says what it means.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum};
use gloveport::config::BackendKind;

const ABOUT: &str = "Run Python that a language model wrote, sealed, with the host's tools as its only way out";

const EXAMPLES: &str = "\
Examples:
  gloveport run -c 'print(6 * 7)'                 run a line of Python
  gloveport run script.py -- --fast data.csv      run a file with arguments
  gloveport run - --json < script.py              one JSON object, for programs
  gloveport run fix.py --workspace .:rw           let it write in this directory
  gloveport run script.py --backend docker        the same in a container
  gloveport schema --format anthropic             what to tell a model about it
  gloveport tools --stubs                         the tools, as Python signatures

A script imports its tools:
  from hermes_tools import read_file, search_files
  for hit in search_files('TODO')['matches']:
      print(hit['path'], hit['line'])";

const RUN_EXAMPLES: &str = "\
Examples:
  gloveport run -c 'from hermes_tools import read_file; print(read_file(\"README.md\")[\"total_lines\"])'
  gloveport run script.py --timeout 10 --memory 128 --tools read_file,search_files
  gloveport run script.py --tools none --workspace none      nothing but computing
  gloveport run script.py --env DATABASE_URL                  pass one variable (its value never shows)
  echo 'print(1)' | gloveport run - --json
  gloveport run script.py --backend docker --image python:3.13-slim
  gloveport run script.py --backend ssh --host user@host      asks before it runs the script there

By default a script may read the current directory, with open() and with the reading tools, and nothing else.
With --backend docker or ssh, script and tools work there: in /workspace of a fresh container without network, or in the account's home.

Exit codes:
  0     the script succeeded
  1     it failed without a code of its own, or could not be run
  2     what was typed or configured can't be used; nothing ran
  124   its time was over
  130   Ctrl-C
  141   nobody read the output any more
  else  the script's own code (its low byte)";

const CONFIG_HELP: &str = "\
Settings are read in layers; a later one wins:
  1. gloveport.toml in the user's configuration directory ($XDG_CONFIG_HOME/gloveport or ~/.config/gloveport)
  2. the nearest gloveport.toml, from the current directory upwards
  3. variables: GLOVEPORT_LIMITS_TIMEOUT=10 is [limits] timeout = 10; lists are separated by commas
  4. options of the command line
--config FILE (or GLOVEPORT_CONFIG) takes the place of both files; `none` means no file at all.
A file that other users can change is refused.

Example:
  workspace = \".:rw\"
  terminal = \"confined\"

  [limits]
  timeout = 60
  max_tool_calls = 200

  [env]
  pass = [\"DATABASE_URL\"]

  [docker]
  image = \"python:3.13-slim\"

  [[tool]]
  name = \"lookup\"
  description = \"Looks a word up in the glossary.\"
  command = [\"python3\", \"tools/lookup.py\"]
  schema = { type = \"object\", properties = { word = { type = \"string\" } }, required = [\"word\"] }";

#[cfg(feature = "wasi")]
const IMAGE_HELP: &str = "\
Examples:
  gloveport image build science                                  numpy, pandas, scipy, matplotlib and more (about two minutes)
  gloveport run --image science -c 'import pandas; print(pandas.__version__)'
  gloveport image build mine --wheel rich.whl --import rich      pure-Python packages, imported beforehand
  gloveport image build mine --from science --run prepare.py     data that prepare.py loads: `from prepared import table`

Images lie in the cache ($XDG_CACHE_HOME/gloveport/images or ~/.cache/gloveport/images).";

/// The command line.
#[derive(Debug, Parser)]
#[command(name = "gloveport", version, about = ABOUT, after_help = EXAMPLES, max_term_width = 120, subcommand_required = true)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    /// Log what happens, on stderr; twice for more (also GLOVEPORT_LOG=debug)
    #[arg(short, long, global = true, action = ArgAction::Count)]
    pub(crate) verbose: u8,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Options of every command.
#[derive(Debug, Args)]
pub(crate) struct Global {
    /// Read this file in place of the gloveport.toml files; `none` reads none
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a script
    #[command(after_help = RUN_EXAMPLES)]
    Run(RunArgs),
    /// Print the tool definition for a model
    Schema(SchemaArgs),
    /// List the tools that scripts can call
    Tools(ToolsArgs),
    /// Check that everything works here
    Doctor(DoctorArgs),
    /// List, stop or remove the environments of remote backends
    Env(EnvArgs),
    /// Show the settings in force and where they come from
    #[command(after_help = CONFIG_HELP)]
    Config(ConfigArgs),
    /// Build and manage images: Python with packages, ready to start
    #[cfg(feature = "wasi")]
    #[command(after_help = IMAGE_HELP)]
    Image {
        /// What to do
        #[command(subcommand)]
        action: ImageAction,
    },
    /// Print completions for a shell
    Completions(CompletionArgs),
}

/// `gloveport image`.
#[cfg(feature = "wasi")]
#[derive(Debug, Subcommand)]
pub(crate) enum ImageAction {
    /// Make an image
    Build(ImageBuildArgs),
    /// List the images that are there
    List,
    /// Remove an image
    Remove {
        /// Its name
        name: String,
    },
    /// Check that images are what was built, and that this program can run them
    Verify {
        /// Its name; all when absent
        name: Option<String>,
    },
}

/// `gloveport image build`.
#[cfg(feature = "wasi")]
#[derive(Debug, Args)]
pub(crate) struct ImageBuildArgs {
    /// `science`, or a name of your own
    pub(crate) name: String,
    /// Wheel of an image of your own: a file with pure Python only. Repeatable. For `science`: the package's file, in place of a download
    #[arg(long, value_name = "FILE")]
    pub(crate) wheel: Vec<PathBuf>,
    /// What an image of your own starts from: `slim` or `science` [default: slim]
    #[arg(long, value_name = "IMAGE")]
    pub(crate) from: Option<String>,
    /// With `--from science`: the package's file, in place of a download
    #[arg(long, value_name = "FILE")]
    pub(crate) science_wheel: Option<PathBuf>,
    /// Modules to import beforehand, separated by commas
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) import: Vec<String>,
    /// Script to run beforehand; scripts find its names in the module `prepared`
    #[arg(long, value_name = "FILE")]
    pub(crate) run: Option<PathBuf>,
}

/// What scripts may do; shared by the commands that need to know.
#[derive(Debug, Default, Args)]
pub(crate) struct ScopeArgs {
    /// What runs the script [default: wasi]
    #[arg(long, value_enum)]
    pub(crate) backend: Option<Backend>,
    /// Where --backend ssh connects to: user@host, or a name from the ssh configuration
    #[arg(long, value_name = "USER@HOST")]
    pub(crate) host: Option<String>,
    /// Image to run it in: `slim`, `science`, another one that was built, the directory of one, or `auto` [default: slim];
    /// with --backend docker the name of a container image [default: python:3.13-slim]
    #[arg(long, value_name = "IMAGE")]
    pub(crate) image: Option<String>,
    /// Tools that the script may call, separated by commas; `none` for none
    #[arg(long, value_name = "LIST")]
    pub(crate) tools: Option<String>,
    /// Directory that the script may see: DIR, DIR:ro, DIR:rw or `none` [default: the current directory, read-only]
    #[arg(long, value_name = "DIR[:ro|:rw]")]
    pub(crate) workspace: Option<OsString>,
    /// Where the script starts: `project` in the workspace, `strict` in an empty directory
    #[arg(long, value_parser = ["project", "strict"])]
    pub(crate) mode: Option<String>,
    /// Seconds for the whole run [default: 300]
    #[arg(long, value_name = "S", allow_hyphen_values = true, value_parser = number)]
    pub(crate) timeout: Option<f64>,
    /// Tool calls that may be made [default: 50]
    #[arg(long, value_name = "N", value_parser = whole_number)]
    pub(crate) max_tool_calls: Option<u64>,
}

/// The backends by their names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Backend {
    /// Python on WebAssembly inside this process; nothing to install
    Wasi,
    /// A container without network (Docker or Podman)
    Docker,
    /// Another host or account
    Ssh,
    /// A plain process of this machine: isolates nothing, and has to be switched on
    Local,
    /// Wherever [command] in the settings leads
    Command,
}

impl From<Backend> for BackendKind {
    fn from(backend: Backend) -> Self {
        match backend {
            Backend::Wasi => Self::Wasi,
            Backend::Docker => Self::Docker,
            Backend::Ssh => Self::Ssh,
            Backend::Local => Self::Local,
            Backend::Command => Self::Command,
        }
    }
}

/// `gloveport run`.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// Python file to run, `-` for standard input
    #[arg(required_unless_present = "code", conflicts_with = "code")]
    pub(crate) file: Option<OsString>,
    /// Run this code
    #[arg(short, long, value_name = "CODE", allow_hyphen_values = true)]
    pub(crate) code: Option<OsString>,
    #[command(flatten)]
    pub(crate) scope: ScopeArgs,
    /// Write the figures that matplotlib has open at the end into this directory, as figure-1.png and so on
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Print a table that is the last expression, as Markdown
    #[arg(long)]
    pub(crate) tables: bool,
    /// Megabytes of memory [default: 512]
    #[arg(long, value_name = "MB", value_parser = whole_number)]
    pub(crate) memory: Option<u64>,
    /// Time zone of the script, as Europe/Berlin
    #[arg(long, value_name = "TZ")]
    pub(crate) timezone: Option<String>,
    /// Pass this variable to the script; its value is masked in everything that is shown. Repeatable
    #[arg(long, value_name = "NAME")]
    pub(crate) env: Vec<String>,
    /// Print exactly one JSON object on stdout, and nothing else there
    #[arg(long)]
    pub(crate) json: bool,
    /// List every tool call in the JSON object
    #[arg(long, requires = "json")]
    pub(crate) calls: bool,
    /// Add a hint to the JSON object where a common mistake shows
    #[arg(long, requires = "json")]
    pub(crate) hints: bool,
    /// No summary line on stderr
    #[arg(short, long)]
    pub(crate) quiet: bool,
    /// Arguments of the script (sys.argv[1:])
    #[arg(last = true, value_name = "ARGS")]
    pub(crate) args: Vec<String>,
}

fn whole_number(text: &str) -> Result<u64, &'static str> {
    text.parse().map_err(|_| "it has to be a whole number")
}

/// Any number, also one that makes no sense as a time: that is judged where all limits are.
fn number(text: &str) -> Result<f64, &'static str> {
    text.parse().map_err(|_| "it has to be a number")
}

/// The protocols whose form `schema` prints.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Format {
    /// OpenAI chat completions
    Openai,
    /// Anthropic messages
    Anthropic,
    /// Model Context Protocol
    Mcp,
}

/// `gloveport schema`.
#[derive(Debug, Args)]
pub(crate) struct SchemaArgs {
    /// Whose form
    #[arg(long, value_enum, default_value_t = Format::Openai)]
    pub(crate) format: Format,
    #[command(flatten)]
    pub(crate) scope: ScopeArgs,
}

/// `gloveport tools`.
#[derive(Debug, Args)]
pub(crate) struct ToolsArgs {
    /// Print a Python stub file (.pyi) of the tools' module
    #[arg(long)]
    pub(crate) stubs: bool,
    #[command(flatten)]
    pub(crate) scope: ScopeArgs,
}

/// `gloveport doctor`.
#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// Show which variables a script gets, which not, and why; no values
    #[arg(long)]
    pub(crate) env: bool,
    #[command(flatten)]
    pub(crate) scope: ScopeArgs,
}

/// `gloveport env`.
#[derive(Debug, Args)]
pub(crate) struct EnvArgs {
    #[command(subcommand)]
    pub(crate) command: EnvCommand,
}

/// What can be done with environments.
#[derive(Debug, Subcommand)]
pub(crate) enum EnvCommand {
    /// List the containers of all programs that use Gloveport here
    List,
    /// Remove the containers of one task, whoever uses them
    Stop {
        /// Name of the task: what a request calls task_id; `default` if it names none
        task: String,
    },
    /// Remove containers that nobody uses any more
    Prune,
}

/// `gloveport config`.
#[derive(Debug, Args)]
pub(crate) struct ConfigArgs {
    /// Print the JSON schema of the configuration, for editors
    #[arg(long)]
    pub(crate) schema: bool,
}

/// `gloveport completions`.
#[derive(Debug, Args)]
pub(crate) struct CompletionArgs {
    /// Which shell
    pub(crate) shell: clap_complete::Shell,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_definition_is_sound() {
        Cli::command().debug_assert();
    }

    /// clap only looks with its debug assertions on, which the profile of dependencies leaves out for others.
    #[test]
    #[should_panic = "Short option names must be unique"]
    fn a_definition_that_is_not_sound_is_noticed() {
        let twice = |name: &'static str| clap::Arg::new(name).short('x');
        clap::Command::new("twice").args([twice("a"), twice("b")]).debug_assert();
    }

    #[test]
    fn odd_times_are_taken_as_typed() {
        for (text, check) in
            [("-1", f64::is_sign_negative as fn(f64) -> bool), ("NaN", f64::is_nan), ("inf", f64::is_infinite)]
        {
            let cli = Cli::try_parse_from(["gloveport", "run", "-c", "x", "--timeout", text]).unwrap();
            let Command::Run(run) = cli.command else { unreachable!() };
            assert!(check(run.scope.timeout.unwrap()), "{text}");
        }
    }

    #[test]
    fn what_follows_two_dashes_is_the_scripts() {
        let cli = Cli::try_parse_from(["gloveport", "run", "-", "--", "--json", "-c"]).unwrap();
        let Command::Run(run) = cli.command else { unreachable!() };
        assert_eq!((run.json, run.args), (false, vec!["--json".to_owned(), "-c".to_owned()]));
    }
}
