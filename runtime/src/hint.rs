//! One line that keeps a model from repeating a common mistake.
//!
//! Written from what a script left on standard error. A script can print the same text and so bring about a wrong hint; nothing but this advice depends on it.

use crate::backend::ExitCause;
use crate::output::Clean;
use crate::result::Ending;

/// What standard error says, and what to do about it. The first row that fits wins; all parts of a row must be there.
const HINTS: &[(&[&str], &str)] = &[
    (
        &["ImportError: cannot import name", "from '{module}'"],
        "Import only the tools that are enabled; the error names them. `json_parse`, `shell_quote` and `retry` are always there.",
    ),
    (
        &["ModuleNotFoundError: No module named", "(the image 'science' has it"],
        "Packages can't be installed here. The image `science` has this one, if whoever runs this program chooses it.",
    ),
    (
        &["ModuleNotFoundError: No module named"],
        "Packages can't be installed here. Use the standard library, or pure-Python modules of the workspace.",
    ),
    (
        &["TypeError: the JSON object must be str, bytes or bytearray, not"],
        "Tool results are already decoded: use them as dicts and lists, or `json_parse`, which accepts both.",
    ),
    (
        &["AttributeError: 'str' object has no attribute 'get'"],
        "This tool answered with text; `json_parse(text)` decodes JSON in it.",
    ),
    (&["subprocess"], "Processes can't be started here; call the `terminal` tool instead, if it is enabled."),
    (&["socket"], "There is no network here; call `web_search` or `web_extract` instead, if they are enabled."),
    (&["urllib"], "There is no network here; call `web_search` or `web_extract` instead, if they are enabled."),
    (
        &["was never awaited"],
        "A coroutine was never awaited: write `await f(...)`, or run it with `asyncio.run(main())`.",
    ),
    (&["MemoryError"], "The script ran out of memory: process the data piece by piece."),
];

/// The hint for a run, if there is one.
pub(crate) fn of(ending: &Ending, stderr: &Clean, module: &str) -> Option<Clean> {
    match ending {
        Ending::Exit(ExitCause::Code(0)) if !stderr.as_str().contains("was never awaited") => None,
        Ending::Exit(_) => HINTS
            .iter()
            .find(|(parts, _)| parts.iter().all(|part| stderr.as_str().contains(&part.replace("{module}", module))))
            .map(|(_, hint)| Clean::from_static(hint)),
        Ending::TimedOut(_) => Some(Clean::from_static(
            "The script ran out of time: do less in one run, or make tool calls at the same time.",
        )),
        Ending::Interrupted(_) | Ending::Failed(..) => None,
    }
}
