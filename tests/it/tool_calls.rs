//! Tool calls on the local backend: budgets, refusals, failing handlers, calls at the same time.

use std::sync::Arc;
use std::time::{Duration, Instant};

use gloveport::dispatch::CallOutcome;
use gloveport::result::Kind;
use gloveport::tool::{Effect, ToolSpec, tool_fn};
use gloveport::{Request, Sandbox, Status};
use tokio::sync::Barrier;

use crate::harness::{backend, configured, printed, run, sandbox, trials};

trials![
    the_fifty_first_call_is_refused_and_the_script_goes_on,
    ten_calls_submitted_together_run_together,
    p7_unknown_tools_are_refused_by_name,
    p8_arguments_that_do_not_fit_are_refused_by_name,
    p9_an_empty_tool_list_means_none,
    p18_answers_of_any_size_arrive_exactly,
    p19_a_text_that_is_json_stays_a_text,
    r17_a_huge_answer_is_cut_and_marked,
    r19_refused_calls_have_a_hard_stop,
    r21_arguments_that_are_not_json_raise_before_anything_is_sent,
    r23_values_arrive_unchanged,
    c5_a_handler_that_panics_fails_only_its_call,
    c6_a_handler_that_blocks_its_thread_does_not_hold_up_the_result,
    s9_the_preview_is_made_after_redaction,
    the_call_log_tells_outcomes,
    many_concurrent_calls_get_their_own_answers,
];

async fn the_fifty_first_call_is_refused_and_the_script_goes_on() {
    let code = "\
from hermes_tools import add
for i in range(50): assert add(i) == i + 1
print(add(50))
print('on')";
    let result = run(code).await;
    assert_eq!(
        printed(&result),
        "{'error': 'Tool call limit reached (50). No more tool calls allowed in this execution.'}\non\n"
    );
    assert_eq!((result.tool_calls_made, result.refused_calls), (50, 1));
}

async fn ten_calls_submitted_together_run_together() {
    let ways = [
        (
            "gather",
            "import asyncio\nasync def main(): return await asyncio.gather(*[meet(i) for i in range(10)])\nr = asyncio.run(main())",
        ),
        ("top-level await", "import asyncio\nr = await asyncio.gather(*[meet(i) for i in range(10)])"),
        ("to_thread", "import asyncio\nr = await asyncio.gather(*[asyncio.to_thread(meet, i) for i in range(10)])"),
        (
            "map",
            "from concurrent.futures import ThreadPoolExecutor\nwith ThreadPoolExecutor(10) as p: r = list(p.map(lambda i: meet(i), range(10)))",
        ),
        (
            "submit",
            "from concurrent.futures import ThreadPoolExecutor\nwith ThreadPoolExecutor(10) as p: r = [f.result() for f in [p.submit(meet, i) for i in range(10)]]",
        ),
        (
            "threads",
            "import threading\nr = [None] * 10\ndef work(i): r[i] = meet(i)\nts = [threading.Thread(target=work, args=(i,)) for i in range(10)]\nfor t in ts: t.start()\nfor t in ts: t.join()",
        ),
    ];
    for (way, body) in ways {
        let code = format!("from hermes_tools import meet\n{body}\nprint(r == list(range(10)))");
        let result = meeting().execute(Request::new(code).timeout_secs(120.0)).await;
        assert_eq!(printed(&result), "True\n", "{way}");
        assert_eq!(result.tool_calls_made, 10, "{way}");
    }
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Meet {
    tag: u64,
}

/// A sandbox with the tool `meet`, whose calls end once ten of them are under way: one after another they would never end.
fn meeting() -> Sandbox {
    let everybody = Arc::new(Barrier::new(10));
    let meet =
        tool_fn(ToolSpec::new::<Meet>("meet", "Waits for nine others.").effect(Effect::Read), move |args: Meet, _| {
            let everybody = Arc::clone(&everybody);
            async move {
                everybody.wait().await;
                Ok(args.tag.into())
            }
        });
    Sandbox::builder().backend(backend()).tools([meet]).build().expect("a sandbox")
}

async fn p7_unknown_tools_are_refused_by_name() {
    let code = "\
import _gloveport, json
for name in ('nope', 'ADD', ' add', 'аdd', ''):
    print(json.loads(_gloveport.call(b'\\x01' + json.dumps({'tool': name, 'args': {}}).encode()))['error'])";
    let result = run(code).await;
    let expected: String = ["nope", "ADD", " add", "аdd", ""]
        .map(|name| format!("Tool '{name}' is not available in execute_code. Available: add, block, boom, content, echo, fail, pause\n"))
        .concat();
    assert_eq!(printed(&result), expected);
    assert_eq!((result.tool_calls_made, result.refused_calls), (0, 5));
    let missing = run("from hermes_tools import terminal").await;
    assert_eq!((missing.status, missing.kind), (Status::Error, Some(Kind::Script)));
    assert!(missing.error.unwrap().as_str().contains("add, "), "the error names the tools that are there");
}

async fn p8_arguments_that_do_not_fit_are_refused_by_name() {
    let code = "\
from hermes_tools import add
for kw in ({}, {'a': '1'}, {'a': None}, {'a': 1.5}, {'a': 1, 'background': True}, {'a': 1, 'b': [1]}):
    print(add(**kw))";
    let result = run(code).await;
    let output = printed(&result);
    let named = [
        "add() is missing the required argument 'a'",
        "add() argument 'a': the value is not of type \"integer\"",
        "add() argument 'a': the value is not of type \"integer\"",
        "add() argument 'a': the value is not of type \"integer\"",
        "add() got an unexpected argument 'background'",
        "add() argument 'b': the value is not of type \"integer\"",
    ];
    let errors: Vec<&str> = output.lines().collect();
    for (error, named) in errors.iter().zip(named) {
        // Python writes a text in double quotes when it holds single ones.
        let quoted =
            if named.contains('"') { format!("'{}'", named.replace('\'', "\\'")) } else { format!("\"{named}\"") };
        assert_eq!(*error, format!("{{'error': {quoted}}}"));
    }
    assert_eq!((errors.len(), result.tool_calls_made, result.refused_calls), (6, 0, 6));
}

async fn p9_an_empty_tool_list_means_none() {
    let none: [&str; 0] = [];
    let sandbox = sandbox();
    let result = sandbox.execute(Request::new("from hermes_tools import add").enabled_tools(none)).await;
    assert_eq!((result.status, result.tool_calls_made), (Status::Error, 0));
    let code = "import hermes_tools\nprint([n for n in dir(hermes_tools) if not n.startswith('_')], hermes_tools.json_parse('1'))";
    let result = sandbox.execute(Request::new(code).enabled_tools(none)).await;
    assert_eq!(printed(&result), "['json_parse', 'retry', 'shell_quote'] 1\n");
}

async fn p18_answers_of_any_size_arrive_exactly() {
    let code = "\
from hermes_tools import echo
n = 0
for power in (16, 17, 20, 23):
    for size in (2**power - 1, 2**power, 2**power + 1):
        text = 'a\\n' * (size // 2)
        assert echo(text) == text
        n += 1
print(n)";
    assert_eq!(printed(&sandbox().execute(Request::new(code).timeout_secs(120.0)).await), "12\n");
}

async fn p19_a_text_that_is_json_stays_a_text() {
    let code = "from hermes_tools import echo\nprint(repr(echo('[1,2]')), repr(echo('{\"error\": 1}')), type(echo({'a': 1})) is dict)";
    assert_eq!(printed(&run(code).await), "'[1,2]' '{\"error\": 1}' True\n");
}

async fn r17_a_huge_answer_is_cut_and_marked() {
    let small = configured(|config| config.limits.answer_bytes = 100_000);
    let code = "from hermes_tools import content\nr = content(1_000_000)\nprint(len(r['content']) < 100_000, r['content'][-63:])";
    let output = printed(&small.execute(Request::new(code)).await);
    assert_eq!(output, "True ... [truncated by the host: the answer was over its size limit]\n");
}

async fn r19_refused_calls_have_a_hard_stop() {
    let code = "from hermes_tools import add\nprint('start')\nfor _ in range(10**6): add(1)";
    let result = sandbox().execute(Request::new(code).max_tool_calls(5)).await;
    assert_eq!((result.status, result.kind, result.tool_calls_made), (Status::Error, Some(Kind::ToolLimit), 5));
    assert!(result.refused_calls >= 1_000);
    assert_eq!(result.output.unwrap(), "start\n");
}

async fn r21_arguments_that_are_not_json_raise_before_anything_is_sent() {
    let code = "\
from hermes_tools import echo
cycle = []; cycle.append(cycle)
deep = []
for _ in range(100000): deep = [deep]
for v in (float('nan'), float('inf'), '\\ud800', {1, 2}, b'x', object(), cycle, deep, {1: 2}):
    try: print(echo(v))
    except (TypeError, ValueError, RecursionError) as e: print(type(e).__name__)";
    let result = run(code).await;
    let output = printed(&result);
    let expected = ["ValueError", "ValueError", "ValueError", "TypeError", "TypeError", "TypeError", "ValueError"];
    assert_eq!(output.lines().take(7).collect::<Vec<_>>(), expected, "{output}");
    assert_eq!((output.lines().count(), result.tool_calls_made, result.refused_calls), (9, 0, 0), "{output}");
}

async fn r23_values_arrive_unchanged() {
    let code = "\
from hermes_tools import echo
for v in (2**53 + 1, -2**63, 2**64 - 1, -0.0, 1e308, 5e-324, 0.1, '\\x00\\u2028\\U0001F600', True, None, [], {}, {'a': [1, {'b': None}]}, ''):
    r = echo(v)
    assert repr(r) == repr(v) and type(r) is type(v), (r, v)
print('same')";
    assert_eq!(printed(&run(code).await), "same\n");
}

async fn c5_a_handler_that_panics_fails_only_its_call() {
    let code = "from hermes_tools import boom, add, fail\nprint(boom(), fail('no luck'), add(1))";
    let result = run(code).await;
    assert_eq!(printed(&result), "{'error': \"Tool 'boom' failed: internal error\"} {'error': 'no luck'} 2\n");
    assert_eq!((result.tool_calls_made, result.refused_calls), (3, 0));
}

async fn c6_a_handler_that_blocks_its_thread_does_not_hold_up_the_result() {
    let started = Instant::now();
    let code = "from hermes_tools import block\nprint('before')\nblock(20000)";
    let result = sandbox().execute(Request::new(code).timeout_secs(1.0)).await;
    assert_eq!((result.status, result.tool_calls_made), (Status::Timeout, 1));
    assert_eq!(result.output.unwrap(), "before\n\n\n⏰ Script timed out after 1s and was killed.");
    assert!(started.elapsed() < Duration::from_secs(19), "the result waited for the handler");
}

async fn s9_the_preview_is_made_after_redaction() {
    let secret = ["ghp_", &"aB3dE5fG7h".repeat(4)[..36]].concat();
    for offset in [0, 30, 50, 60, 70, 75] {
        let code = format!("from hermes_tools import echo\necho('{}' + ' {secret}')", "x ".repeat(offset / 2));
        let result = sandbox().execute(Request::new(code).list_tool_calls(true)).await;
        let calls = result.tool_calls.expect("a call log");
        let preview = calls[0].arguments.as_str();
        let leaks = (0..secret.len() - 8).any(|i| preview.contains(&secret[i..i + 8]));
        assert!(!leaks && preview.chars().count() <= 80, "{preview}");
    }
}

async fn the_call_log_tells_outcomes() {
    let code = "\
from hermes_tools import add, fail, pause, json_parse
import _gloveport
add(1); fail('x'); add('1')
_gloveport.call(b'\\x01{\"tool\": \"nope\", \"args\": {}}')
_gloveport.call(b'\\x02{\"tool\": \"pause\", \"args\": {\"ms\": 60000}}')
print('started', flush=True)
pause(60000)";
    let result = sandbox().execute(Request::new(code).list_tool_calls(true).timeout_secs(2.0)).await;
    let calls = result.tool_calls.expect("a call log");
    let log: Vec<(&str, CallOutcome)> = calls.iter().map(|call| (call.tool.as_str(), call.outcome)).collect();
    assert_eq!(
        log,
        [
            ("add", CallOutcome::Ok),
            ("fail", CallOutcome::Error),
            ("add", CallOutcome::Refused),
            ("nope", CallOutcome::Refused),
            ("pause", CallOutcome::Unknown),
            ("pause", CallOutcome::Unknown),
        ]
    );
    assert_eq!(calls[0].arguments.as_str(), "{\"a\":1}");
}

async fn many_concurrent_calls_get_their_own_answers() {
    let code = "\
from hermes_tools import pause
from concurrent.futures import ThreadPoolExecutor
with ThreadPoolExecutor(32) as pool:
    print([r['tag'] for r in pool.map(lambda i: pause(50 - i, i), range(50))] == list(range(50)))";
    let result = run(code).await;
    assert_eq!(printed(&result), "True\n");
    assert_eq!(result.tool_calls_made, 50);
}
