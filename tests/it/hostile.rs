//! Scripts that try to bring the host down. Each gives one right result in time, and the same process runs the next script.

use std::time::{Duration, Instant};

use gloveport::result::Kind;
use gloveport::{Request, RunResult, Status};

use crate::harness::{configured, printed, run, sandbox, trials};

trials![
    all_of_them_at_once_in_random_order,
    r1_an_endless_list_is_a_memory_error,
    r2_a_caught_memory_error_lets_the_script_go_on,
    r4_an_endless_loop_times_out,
    r5_loops_inside_c_code_time_out,
    r6_a_timeout_can_not_be_swallowed,
    r7_a_sleep_ends_at_the_deadline,
    r8_recursion_is_an_error_of_the_script,
    r11_a_flood_of_output_is_a_success_with_exact_counts,
    compiling_takes_time_in_proportion_to_the_lines,
    r14_output_of_any_bytes_is_shown_and_counted,
    r15_open_files_are_capped,
    r16_the_disk_is_capped,
    r24_large_requests_to_the_system_are_bounded,
    r31_a_thousand_runs_leave_nothing_behind,
    p37_any_exit_code_survives,
    p39_what_was_printed_before_a_hard_end_is_kept,
    e19_a_raw_host_call_can_not_hurt_the_host,
];

/// What a hostile script must come to.
struct Case {
    name: &'static str,
    code: &'static str,
    status: Status,
    kind: Option<Kind>,
    exit_code: Option<i32>,
    /// Output, or `None` where a traceback makes it long: then only its beginning and end count.
    output: Option<&'static str>,
}

const TIMEOUT: Duration = Duration::from_secs(3);
/// For scripts that end by themselves: sixteen share two cores.
const PLENTY: Duration = Duration::from_secs(120);
/// Beyond the time limit: the host's grace, and what a machine under full load adds.
const GRACE: Duration = Duration::from_secs(7);

const fn error(name: &'static str, code: &'static str, kind: Kind, exit_code: Option<i32>) -> Case {
    Case { name, code, status: Status::Error, kind: Some(kind), exit_code, output: None }
}

const fn success(name: &'static str, code: &'static str, output: &'static str) -> Case {
    Case { name, code, status: Status::Success, kind: None, exit_code: Some(0), output: Some(output) }
}

const fn timeout(name: &'static str, code: &'static str) -> Case {
    Case { name, code, status: Status::Timeout, kind: Some(Kind::Deadline), exit_code: None, output: None }
}

const CASES: &[Case] = &[
    error("json nesting", "import json\njson.loads('['*100000)", Kind::Script, Some(1)),
    success("json nesting caught", "import json\ntry: json.loads('['*1200)\nexcept ValueError: print('no')", "no\n"),
    error("parser nesting", "eval('('*5000)", Kind::Script, Some(1)),
    success(
        "parser nesting caught",
        "try: compile('('*150+'x'+')'*150,'a','eval'); print('fine')\nexcept (SyntaxError, MemoryError, RecursionError): print('fine')",
        "fine\n",
    ),
    error("recursion", "import sys\nsys.setrecursionlimit(10**5)\ndef f(): f()\nf()", Kind::Script, Some(1)),
    success(
        "repr of a deep list",
        "x=[]\nfor _ in range(100000): x=[x]\ntry: repr(x)\nexcept RecursionError: print('deep')",
        "deep\n",
    ),
    timeout("big power", "10**10**8"),
    timeout("regex", "import re\nre.match(r'(a+)+$', 'a'*60+'b')"),
    timeout("sleep", "import time\ntime.sleep(1e9)"),
    timeout("loop", "while True: pass"),
    error("memory", "x=[]\nwhile True: x.append(bytearray(1<<20))", Kind::Memory, Some(1)),
    error("exit 255", "import sys\nsys.exit(255)", Kind::Script, Some(255)),
    error("hard exit", "import os\nos._exit(3)", Kind::Script, Some(3)),
    error("abort", "import os\nos.abort()", Kind::Script, Some(134)),
    error("no builtins", "import builtins\nbuiltins.__dict__.clear()\nprint(1)", Kind::Script, Some(1)),
    success("fine", "print('fine')", "fine\n"),
    success("fine with a call", "from hermes_tools import add\nprint(add(2, 3))", "5\n"),
];

fn request(case: &Case) -> Request {
    Request::new(case.code).timeout(if case.status == Status::Timeout { TIMEOUT } else { PLENTY })
}

fn check(case: &Case, result: &RunResult) {
    let json = result.to_json();
    assert_eq!((result.status, result.kind), (case.status, case.kind), "{}: {json}", case.name);
    assert_eq!(result.exit_code, case.exit_code, "{}: {json}", case.name);
    if let Some(output) = case.output {
        assert_eq!(result.output.as_ref().map(|o| o.as_str()), Some(output), "{}", case.name);
    }
}

async fn all_of_them_at_once_in_random_order() {
    let mut order: Vec<usize> = (0..100).map(|i| i % CASES.len()).collect();
    shuffle(&mut order);
    // Sixteen at a time: two cores can't give a hundred busy guests their seconds.
    let slots = std::sync::Arc::new(tokio::sync::Semaphore::new(16));
    let runs: Vec<_> = order
        .into_iter()
        .map(|index| {
            let slots = slots.clone();
            tokio::spawn(async move {
                let _slot = slots.acquire().await.expect("an open semaphore");
                (index, sandbox().execute(request(&CASES[index])).await)
            })
        })
        .collect();
    for run in runs {
        let (index, result) = run.await.expect("a run never panics");
        // Under load even a short script may meet its deadline; that is the only other right end, and it has its own form.
        if result.status != Status::Timeout {
            check(&CASES[index], &result);
        }
    }
    for case in CASES {
        check(case, &sandbox().execute(request(case)).await);
    }
}

fn shuffle(items: &mut [usize]) {
    use std::hash::{BuildHasher as _, Hasher as _};
    for i in (1..items.len()).rev() {
        let random = std::collections::hash_map::RandomState::new().build_hasher().finish();
        items.swap(i, usize::try_from(random % (i as u64 + 1)).expect("an index"));
    }
}

async fn timed(code: &str, limit: f64) -> (RunResult, Duration) {
    let started = Instant::now();
    let result = sandbox().execute(Request::new(code).timeout_secs(limit)).await;
    (result, started.elapsed())
}

async fn expect_timeout(code: &str) {
    let (result, took) = timed(code, 1.0).await;
    assert_eq!((result.status, result.kind), (Status::Timeout, Some(Kind::Deadline)), "{code}: {}", result.to_json());
    assert!(took >= Duration::from_secs(1) && took < Duration::from_secs(1) + GRACE, "{code}: {took:?}");
}

async fn r1_an_endless_list_is_a_memory_error() {
    let result = run("x=[]\nprint('start')\nwhile True: x.append(bytearray(1<<20))").await;
    assert_eq!((result.status, result.kind, result.exit_code), (Status::Error, Some(Kind::Memory), Some(1)));
    assert_eq!(
        result.output.unwrap().as_str(),
        "start\n\n--- stderr ---\nTraceback (most recent call last):\n  File \"script.py\", line 3, in <module>\n    \
         while True: x.append(bytearray(1<<20))\n                         ~~~~~~~~~^^^^^^^\nMemoryError\n"
    );
}

async fn r2_a_caught_memory_error_lets_the_script_go_on() {
    let code = "x=[]\ntry:\n    while True: x.append(bytearray(1<<20))\nexcept MemoryError:\n    del x\nprint('on')";
    assert_eq!(printed(&run(code).await), "on\n");
}

async fn r4_an_endless_loop_times_out() {
    expect_timeout("while True: pass").await;
}

async fn r5_loops_inside_c_code_time_out() {
    for code in ["10**10**8", "import re; re.match(r'(a+)+$', 'a'*60+'b')", "sum(range(10**12))"] {
        expect_timeout(code).await;
    }
}

async fn r6_a_timeout_can_not_be_swallowed() {
    expect_timeout("while True:\n    try:\n        while True: pass\n    except BaseException: pass").await;
    expect_timeout("import atexit\n@atexit.register\ndef f():\n    while True: pass").await;
    expect_timeout("class A:\n    def __del__(self):\n        while True: pass\nA()").await;
}

async fn r7_a_sleep_ends_at_the_deadline() {
    expect_timeout("import time; time.sleep(1e9)").await;
    expect_timeout("import select; select.select([], [], [], 1000)").await;
    expect_timeout("from hermes_tools import pause; pause(1000000)").await;
    assert_eq!(printed(&run("import sys; print(repr(sys.stdin.read()))").await), "''\n");
}

/// In the square of the lines, as it once was, this takes several minutes.
async fn compiling_takes_time_in_proportion_to_the_lines() {
    let code = "compile('x = 1\\n' * 400_000, 'lines', 'exec')\nprint('compiled')";
    let result = sandbox().execute(Request::new(code).timeout_secs(100.0)).await;
    assert_eq!(printed(&result), "compiled\n");
}

async fn r8_recursion_is_an_error_of_the_script() {
    let codes = [
        "def f(): f()\nf()",
        "import sys\nsys.setrecursionlimit(2 * 10**5)\ndef f(): f()\nf()",
        "import sys\nsys.setrecursionlimit(10**6)\ndef f(): f()\ntry: f()\nexcept (RecursionError, MemoryError): pass",
        "x=[]\nfor _ in range(100000): x=[x]\nrepr(x)",
        "import json\njson.loads('['*100000)",
        "eval('-'*100000 + '1')",
        "class A:\n    def __getattr__(self, n): return getattr(self, n)\nA().x",
        "import pickle\nx=[]\nfor _ in range(100000): x=[x]\npickle.dumps(x)",
        "x=()\nfor _ in range(100000): x=(x,)\nhash(x)",
        "import copy\nx=[]\nfor _ in range(100000): x=[x]\ncopy.deepcopy(x)",
        "import ast\nast.literal_eval('['*5000)",
        "f=lambda x:x\nfor _ in range(100000): f=(lambda g: lambda x: g(x))(f)\nf(1)",
        "import functools\nf=int\nfor _ in range(100000): f=functools.partial(f)\nrepr(f)",
        "x={}\ny=x\nfor _ in range(100000): y['a']={}; y=y['a']\nx==x.copy()\nimport json\njson.dumps(x)",
        "import re\nre.compile('('*5000+')'*5000)",
    ];
    for code in codes {
        let result = sandbox().execute(Request::new(code).timeout_secs(200.0)).await;
        let fine = matches!(result.status, Status::Success)
            || matches!(result.kind, Some(Kind::Script | Kind::Stack | Kind::Memory));
        assert!(fine, "{code}: {}", result.to_json());
    }
    assert_eq!(printed(&run("print('alive')").await), "alive\n");
}

async fn r11_a_flood_of_output_is_a_success_with_exact_counts() {
    let before = resident_kib();
    let code = "s='x'*(1<<20)\nfor _ in range(1<<11): print(s, end='')";
    let result = sandbox().execute(Request::new(code).timeout_secs(240.0)).await;
    let output = printed(&result);
    let stdout = result.stdout.unwrap();
    assert_eq!((stdout.total, stdout.omitted), (1 << 31, (1 << 31) - 50_000));
    let notice = "\n\n... [OUTPUT TRUNCATED - 2,147,433,648 chars omitted out of 2,147,483,648 total] ...\n\n";
    assert_eq!(output, format!("{}{notice}{}", "x".repeat(20_000), "x".repeat(30_000)));
    // Other tests run at the same time; two gigabytes that were kept would show all the same.
    assert!(resident_kib().saturating_sub(before) < 1 << 20, "host memory must not follow the output");
}

async fn r14_output_of_any_bytes_is_shown_and_counted() {
    let code = "import sys\nsys.stdout.buffer.write(bytes(range(256))*300 + b'\\xf0\\x9f\\x98')";
    let result = run(code).await;
    printed(&result);
    let stdout = result.stdout.unwrap();
    assert_eq!((stdout.total, stdout.kept, stdout.omitted), (76_803, 50_000, 26_803));
}

async fn r15_open_files_are_capped() {
    let code = "\
files = []
try:
    while True: files.append(open('/tmp/x', 'w'))
except OSError as e: print(len(files), e.errno == __import__('errno').EMFILE)
files.pop().close()
print(open('/tmp/x').read() == '')";
    assert_eq!(printed(&run(code).await), "64 True\nTrue\n");
}

async fn r16_the_disk_is_capped() {
    let code = "\
import errno, os
n = 0
try:
    with open('/tmp/big', 'wb') as f:
        while True: n += f.write(b'x' * (1 << 20))
except OSError as e: print(n >> 20, errno.errorcode[e.errno])
os.remove('/tmp/big')
made = 0
try:
    while True:
        os.mkdir(f'/tmp/d{made}'); made += 1
except OSError as e: print(made, errno.errorcode[e.errno])";
    assert_eq!(printed(&run(code).await), "256 ENOSPC\n10000 ENOSPC\n");
}

async fn r24_large_requests_to_the_system_are_bounded() {
    let code = "\
import os
with open('/tmp/x', 'wb') as f: print(f.write(b'x' * 10_000_000))
print(len(os.urandom(10_000_000)))
with open('/tmp/sparse', 'wb') as f:
    f.seek(2**40); f.write(b'x')
print(os.path.getsize('/tmp/sparse') == 2**40 + 1)
try: os.urandom(1 << 30)
except MemoryError: print('no')";
    assert_eq!(printed(&run(code).await), "10000000\n10000000\nTrue\nno\n");
}

async fn r31_a_thousand_runs_leave_nothing_behind() {
    let code = "import random, uuid, secrets\nprint(random.random(), uuid.uuid4(), secrets.token_hex())";
    let one = || async { printed(&run(code).await) };
    for _ in 0..100 {
        one().await;
    }
    let (descriptors, threads, memory) = (descriptors(), threads(), resident_kib());
    let mut seen = [const { std::collections::BTreeSet::new() }; 3];
    for _ in 0..1_000 {
        for (i, word) in one().await.split_whitespace().enumerate() {
            seen[i].insert(word.to_owned());
        }
    }
    assert_eq!(seen.map(|words| words.len()), [1_000; 3]);
    // Other tests run at the same time, so the bounds leave room for theirs, and none for a leak of one per run.
    assert!(self::descriptors() < descriptors + 500, "descriptors leak");
    assert!(self::threads() < threads + 100, "threads leak");
    assert!(resident_kib() < memory + (500 << 10), "memory leaks");
}

async fn p37_any_exit_code_survives() {
    for (argument, code) in [
        ("0", 0),
        ("3", 3),
        ("124", 124),
        ("130", 130),
        ("137", 137),
        ("255", 255),
        ("256", 256),
        ("-1", -1),
        ("None", 0),
        ("True", 1),
    ] {
        let result = run(&format!("import sys; sys.exit({argument})")).await;
        assert_eq!(result.exit_code, Some(code), "{argument}: {}", result.to_json());
    }
    for code in [3, 200, 255] {
        assert_eq!(run(&format!("import os; os._exit({code})")).await.exit_code, Some(code));
    }
    let result = run("import sys; sys.exit('message')").await;
    assert_eq!(result.exit_code, Some(1));
    assert_eq!(result.output.unwrap(), "\n--- stderr ---\nmessage\n");
}

async fn p39_what_was_printed_before_a_hard_end_is_kept() {
    for (end, code) in [("import os; os._exit(7)", 7), ("import os; os.abort()", 134)] {
        let result = run(&format!("print('before')\n{end}")).await;
        assert_eq!((result.exit_code, result.kind), (Some(code), Some(Kind::Script)), "{}", result.to_json());
        assert_eq!(result.output.unwrap(), "before\n");
        assert_eq!(result.error.unwrap().as_str(), format!("Script exited with code {code}"));
    }
    let (result, _) = timed("print('before', end='')\nwhile True: pass", 1.0).await;
    assert_eq!(result.output.unwrap(), "before\n\n⏰ Script timed out after 1s and was killed.");
}

async fn e19_a_raw_host_call_can_not_hurt_the_host() {
    // The C module is the closest a script comes to the import without breaking the interpreter.
    let code = "\
import _gloveport
for message in (b'', b'\\x63', b'\\x02', b'\\x03', b'\\x03short', b'\\x03' + b'\\xff' * 9, b'\\x05', b'\\x05\\x09x', b'\\x06nonsense', b'\\x04abc'):
    try: print(message[:1], _gloveport.call(message)[:40])
    except Exception as e: print(message[:1], type(e).__name__)
try: _gloveport.call(b'\\x01' + b'x' * (17 << 20))
except Exception as e: print(type(e).__name__)
print(_gloveport.call(b'\\x01{}'))
ids = [_gloveport.call(b'\\x02{}') for _ in range(63)]
try: _gloveport.call(b'\\x02{}')
except Exception as e: print(type(e).__name__)
print(_gloveport.call(b'\\x03' + (-1).to_bytes(8, 'little', signed=True) + (99).to_bytes(4, 'little')))";
    let result = run(code).await;
    assert!(printed(&result).ends_with("b'c\\x00\\x00\\x00{\"error\": \"no such call\"}'\n"), "{}", result.to_json());
    let tight = configured(|config| config.limits.outstanding_calls = 1);
    let result = tight
        .execute(Request::new("import _gloveport\n_gloveport.call(b'\\x02{}')\n_gloveport.call(b'\\x02{}')"))
        .await;
    assert_eq!(result.exit_code, Some(1));
}

fn resident_kib() -> u64 {
    status_field("VmRSS:")
}

fn threads() -> u64 {
    status_field("Threads:")
}

fn status_field(name: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("/proc/self/status");
    let line = status.lines().find(|line| line.starts_with(name)).expect("a field of /proc/self/status");
    line.split_whitespace().nth(1).and_then(|number| number.parse().ok()).expect("a number")
}

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").expect("/proc/self/fd").count()
}
