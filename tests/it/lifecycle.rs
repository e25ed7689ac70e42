//! Life cycle: cancelling, dropping, many runs at once, fresh state for each.

use std::time::{Duration, Instant};

use gloveport::backend::Stream;
use gloveport::result::Kind;
use gloveport::wasi::{Allocation, WasiBackend};
use gloveport::{Cancel, Controls, Request, Sandbox, Status};
use std::sync::{Arc, Mutex};

use crate::harness::{builder, options, printed, run, sandbox, trials};

trials![
    c1_a_hundred_runs_at_once_do_not_mix,
    c2_a_cancelled_run_keeps_what_was_printed,
    c9_dropping_the_future_stops_the_run,
    c10_a_current_thread_runtime_works,
    c13_pooled_slots_are_clean,
    c14_every_run_has_fresh_random_state,
    copy_on_write_is_kept,
    live_output_comes_while_the_script_runs,
    live_output_never_shows_a_secret_that_is_split,
    p2_a_stuck_reader_of_live_output_does_not_hold_up_the_result,
    time_zones_are_the_scripts_own,
];

async fn c1_a_hundred_runs_at_once_do_not_mix() {
    let runs: Vec<_> = (0..100)
        .map(|i| {
            let code = if i % 5 == 0 {
                format!("print({i})\nraise SystemExit({i} % 100)")
            } else {
                format!("import os\nopen('/tmp/me', 'w').write('{i}')\nfrom hermes_tools import add, pause\npause(20)\nprint(open('/tmp/me').read(), add({i}), os.listdir('/tmp'))")
            };
            tokio::spawn(async move { (i, sandbox().execute(Request::new(code)).await) })
        })
        .collect();
    for run in runs {
        let (i, result) = run.await.expect("a run never panics");
        let expected = if i % 5 == 0 { format!("{i}\n") } else { format!("{i} {} ['me']\n", i + 1) };
        assert_eq!(result.output.as_ref().map(|o| o.as_str()), Some(expected.as_str()), "{}", result.to_json());
        assert_eq!(result.exit_code, Some(if i % 5 == 0 { i % 100 } else { 0 }));
    }
}

async fn c2_a_cancelled_run_keeps_what_was_printed() {
    let busy = [
        ("computing", "while True: pass"),
        ("sleeping", "import time; time.sleep(1000)"),
        ("calling", "from hermes_tools import pause; pause(1000000)"),
        ("printing", "while True: print('x' * 1000)"),
    ];
    for (what, code) in busy {
        let cancel = Cancel::new();
        let controls = Controls { cancel: Some(cancel.clone()), ..Controls::default() };
        let started = Instant::now();
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(300)).await;
            cancel.cancel();
            cancel.cancel_with("too late");
        });
        let result = sandbox().execute_with(Request::new(format!("print('before')\n{code}")), controls).await;
        assert_eq!((result.status, result.kind), (Status::Interrupted, Some(Kind::Interrupted)), "{what}");
        let output = result.output.expect("an output");
        assert!(output.as_str().starts_with("before\n"), "{what}: {output}");
        assert!(output.as_str().ends_with("\n[execution interrupted — user sent a new message]"), "{what}");
        assert!(started.elapsed() < Duration::from_secs(10), "{what}: {:?}", started.elapsed());
    }
    let cancel = Cancel::new();
    cancel.cancel_with("the user left");
    let controls = Controls { cancel: Some(cancel), ..Controls::default() };
    let result = sandbox().execute_with(Request::new("while True: pass"), controls).await;
    assert_eq!(result.output.expect("an output"), "\n[execution interrupted — the user left]");
}

async fn c9_dropping_the_future_stops_the_run() {
    let dir = tempfile::tempdir_in(crate::harness::scratch()).expect("a temporary directory");
    let sandbox = crate::harness::granted(dir.path(), gloveport::job::Access::ReadWrite);
    let code = "import time\nn = 0\nwhile True:\n    n += 1\n    open('beat', 'w').write(str(n))\n    time.sleep(0.02)";
    let stopped = tokio::time::timeout(Duration::from_secs(2), sandbox.execute(Request::new(code))).await;
    assert!(stopped.is_err());
    tokio::time::sleep(Duration::from_millis(500)).await;
    let beat = || std::fs::read_to_string(dir.path().join("beat")).expect("a beat");
    let last = beat();
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(beat(), last, "the script still runs");
}

async fn c10_a_current_thread_runtime_works() {
    let outcome = std::thread::spawn(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let busy = tokio::spawn(sandbox_execute("while True: pass", 1.0));
            // The busy guest has to yield to this one.
            let quick = sandbox_execute("from hermes_tools import add\nprint(add(1))", 60.0).await;
            (printed(&quick), busy.await.expect("a run never panics").status)
        })
    });
    assert_eq!(outcome.join().expect("a thread that ends"), ("2\n".to_owned(), Status::Timeout));
}

async fn sandbox_execute(code: &'static str, seconds: f64) -> gloveport::RunResult {
    sandbox().execute(Request::new(code).timeout_secs(seconds)).await
}

async fn c13_pooled_slots_are_clean() {
    let backend = WasiBackend::new(&options(Allocation::Pooled(2))).expect("a pooled backend");
    let sandbox: Sandbox = builder().backend(Arc::new(backend)).build().expect("a sandbox");
    let dirty = "import os, builtins\nbuiltins.marker = 'c13-marker' * 1000\nos.environ['MARK'] = 'c13'\nx = [bytearray(b'c13') * 1000 for _ in range(20000)]\nprint(len(x))";
    let clean = "import os, builtins, gc\nprint(hasattr(builtins, 'marker'), 'MARK' in os.environ, sum('c13-mark' in o for o in gc.get_objects() if isinstance(o, str)))";
    for _ in 0..6 {
        let runs = [dirty, clean, dirty, clean].map(|code| {
            let sandbox = sandbox.clone();
            tokio::spawn(async move { sandbox.execute(Request::new(code)).await })
        });
        for (i, run) in runs.into_iter().enumerate() {
            let expected = if i % 2 == 0 { "20000\n" } else { "False False 0\n" };
            assert_eq!(printed(&run.await.expect("a run never panics")), expected);
        }
    }
}

async fn c14_every_run_has_fresh_random_state() {
    let code = "\
import random, uuid, secrets, os, tempfile
print(random.random(), uuid.uuid4(), uuid.uuid1(), secrets.token_hex(), os.urandom(8).hex(), random.Random().random(), tempfile.mktemp())";
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..100 {
        for word in printed(&run(code).await).split_whitespace() {
            assert!(seen.insert(word.to_owned()), "{word} came twice");
        }
    }
}

/// A snapshot whose heap is sparse silently loses copy-on-write, and then each instance copies tens of megabytes.
async fn copy_on_write_is_kept() {
    printed(&run("print(1)").await);
    let before = faults();
    for _ in 0..20 {
        printed(&run("print(1)").await);
    }
    // Other tests fault too; copying the image would be more than ten thousand faults a run.
    let per_run = (faults() - before) / 20;
    assert!(per_run < 8_000, "{per_run} page faults a run");
}

fn faults() -> u64 {
    // The tenth field of a task's stat is its minor faults, after the name in parentheses.
    let stat = std::fs::read_to_string("/proc/self/stat").expect("/proc/self/stat");
    let fields = stat.rsplit(')').next().expect("fields");
    fields.split_whitespace().nth(7).and_then(|number| number.parse().ok()).expect("a number")
}

type Seen = Arc<Mutex<Vec<(Duration, Stream, String)>>>;

fn live() -> (Controls, Seen) {
    let seen: Seen = Arc::default();
    let started = Instant::now();
    let sink = seen.clone();
    let live: gloveport::LiveOutput = Arc::new(move |stream, text| {
        sink.lock().expect("a lock").push((started.elapsed(), stream, text.as_str().to_owned()));
    });
    (Controls { live: Some(live), ..Controls::default() }, seen)
}

async fn live_output_comes_while_the_script_runs() {
    let (controls, seen) = live();
    let code = "import time, sys\nprint('first')\nprint('no line end', end='')\nprint('err', file=sys.stderr)\ntime.sleep(3)\nprint('last')";
    let result = sandbox().execute_with(Request::new(code), controls).await;
    printed(&result);
    let seen = seen.lock().expect("a lock");
    let text = |wanted: Stream| -> String {
        seen.iter().filter(|(_, stream, _)| *stream == wanted).map(|(_, _, text)| text.as_str()).collect()
    };
    assert_eq!(text(Stream::Stdout), "first\nno line endlast\n");
    assert_eq!(text(Stream::Stderr), "err\n");
    let early: String = seen
        .iter()
        .filter(|(at, stream, _)| *stream == Stream::Stdout && *at < Duration::from_millis(2_500))
        .map(|(_, _, text)| text.as_str())
        .collect();
    // The last word may be the beginning of something that has to be masked, so it may wait for what follows.
    assert!(early.starts_with("first\nno line"), "{early:?}");
}

async fn live_output_never_shows_a_secret_that_is_split() {
    let secret = ["ghp_", &"aB3dE5fG7h".repeat(4)[..36]].concat();
    let (controls, seen) = live();
    let (first, second) = secret.split_at(20);
    let code = format!(
        "import time\nprint('key: {first}', end='', flush=True)\ntime.sleep(0.5)\nprint('{second}')\nprint('end')"
    );
    printed(&sandbox().execute_with(Request::new(code), controls).await);
    let shown: String = seen.lock().expect("a lock").iter().map(|(_, _, text)| text.as_str()).collect();
    assert!(!(0..secret.len() - 8).any(|i| shown.contains(&secret[i..i + 8])), "{shown}");
    assert!(shown.ends_with("end\n"));
}

async fn time_zones_are_the_scripts_own() {
    let code = "\
import time, datetime, os
print(time.tzname, datetime.datetime.fromtimestamp(0).hour, time.strftime('%H', time.localtime(1751371200)))
os.environ['TZ'] = 'Asia/Tokyo'; time.tzset()
print(time.tzname, time.localtime(0).tm_hour)";
    let result = sandbox().execute(Request::new(code).timezone("America/New_York")).await;
    assert_eq!(printed(&result), "('EST', 'EDT') 19 08\n('JST', 'JST') 9\n");
    assert_eq!(printed(&run("import time; print(time.tzname, time.timezone)").await), "('UTC', 'UTC') 0\n");
    let bad = sandbox().execute(Request::new("print(1)").timezone("$(id)")).await;
    assert_eq!((bad.status, bad.kind, bad.output), (Status::Error, Some(Kind::Protocol), None));
}

async fn p2_a_stuck_reader_of_live_output_does_not_hold_up_the_result() {
    let live: gloveport::LiveOutput = Arc::new(|_, _| std::thread::sleep(Duration::from_secs(20)));
    let controls = Controls { live: Some(live), ..Controls::default() };
    let started = Instant::now();
    let request = Request::new("while True: print('x' * 100)").timeout_secs(1.0);
    let result = sandbox().execute_with(request, controls).await;
    assert_eq!(result.status, Status::Timeout);
    assert!(result.output.expect("an output").as_str().starts_with("xxxx"), "what was printed is kept");
    // A reader that held up the result would do so for its twenty seconds.
    assert!(started.elapsed() < Duration::from_secs(15), "the result waited for the reader: {:?}", started.elapsed());
}
