//! Figures side by side in one run: the local backend, plain `python3`, and a child process with a polled socket.
//!
//! `cargo xtask bench` runs this and prints a Markdown table. Each row alternates between the candidates, so that a busy machine hurts them alike;
//! what counts is the ratio.

#![expect(clippy::disallowed_methods, reason = "a bench has files of its own and starts what it compares with")]

use std::error::Error;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use gloveport::config::ImageChoice;
use gloveport::wasi::{Allocation, WasiBackend, WasiOptions};
use gloveport::{Config, Request, RunResult, Sandbox, Status};
use gloveport_tests::probe_tools;

type Outcome<T> = Result<T, Box<dyn Error>>;

const HI: &str = "print(\"hi\")";
/// A pure-Python job of the kind that scripts do between calls: numbers, text, dictionaries.
const CPU_JOB: &str = "
import time
def job():
    words = {}
    for i in range(60000):
        key = f'k{i * 7919 % 977}'
        words[key] = words.get(key, 0) + i % 13
    grid = [[(x * y) % 17 for x in range(120)] for y in range(120)]
    total = sum(grid[y][x] * grid[x][y] for x in range(120) for y in range(120))
    text = ' '.join(sorted(words))
    return total + len([w for w in text.split() if w.endswith('3')])
job()
t = time.perf_counter()
for _ in range(5): job()
print(time.perf_counter() - t)
";
/// Polls of the child in the original design: it looks for the child's end this often.
const POLL: Duration = Duration::from_millis(200);

#[expect(clippy::print_stdout, reason = "the table is what this program is for")]
fn main() -> Outcome<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let scratch = tempfile_dir()?;
    let on_demand = sandbox(&scratch, Allocation::OnDemand)?;
    let pooled = sandbox(&scratch, Allocation::Pooled(64))?;
    runtime.block_on(warm(&[&on_demand, &pooled]))?;
    println!("| what | Gloveport | against | ratio |\n| --- | --- | --- | --- |");
    // With names as arguments only those rows are measured, for work on one of them.
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    let is_wanted = |name: &str| wanted.is_empty() || wanted.iter().any(|w| w == name);
    // First: what larger jobs took before would be given back meanwhile.
    if is_wanted("memory") {
        memory(&runtime, &on_demand)?;
    }
    if is_wanted("fresh") {
        fresh(&runtime, &on_demand, &pooled)?;
    }
    if is_wanted("cold") {
        cold_process(&scratch)?;
    }
    if is_wanted("call") {
        tool_call(&runtime, &on_demand, &scratch)?;
    }
    if is_wanted("cpu") {
        cpu(&runtime, &on_demand)?;
    }
    if is_wanted("science") {
        science(&runtime, &on_demand, &pooled)?;
    }
    if is_wanted("flood") {
        flood(&runtime, &on_demand)?;
    }
    std::fs::remove_dir_all(&scratch)?;
    Ok(())
}

fn tempfile_dir() -> Outcome<PathBuf> {
    let dir = std::env::temp_dir().join(format!("gloveport-bench-{}", std::process::id()));
    std::fs::create_dir_all(&dir)?;
    Ok(dir)
}

fn sandbox(scratch: &std::path::Path, allocation: Allocation) -> Outcome<Sandbox> {
    // Another image's figures: GLOVEPORT_TEST_IMAGE=science, built beforehand.
    let image = std::env::var("GLOVEPORT_TEST_IMAGE").map_or(Ok(ImageChoice::Slim), |name| name.parse())?;
    let environment: Vec<_> = std::env::vars_os().collect();
    let options = WasiOptions {
        cache_dir: match image {
            ImageChoice::Slim => scratch.join("cache"),
            _ => WasiOptions::from_environment(&environment).cache_dir,
        },
        scratch_dir: scratch.join("runs"),
        allocation,
        max_concurrent: 100,
        image,
    };
    let mut config = Config::default();
    config.limits.max_tool_calls = 1_000_000;
    Ok(Sandbox::builder().config(config).backend(Arc::new(WasiBackend::new(&options)?)).tools(probe_tools()).build()?)
}

async fn warm(sandboxes: &[&Sandbox]) -> Outcome<()> {
    for sandbox in sandboxes {
        for _ in 0..20 {
            printed(&sandbox.execute(Request::new(HI)).await)?;
        }
    }
    Ok(())
}

fn printed(result: &RunResult) -> Outcome<String> {
    match (result.status, &result.output) {
        (Status::Success, Some(output)) => Ok(output.as_str().to_owned()),
        _ => Err(result.to_json().into()),
    }
}

/// The interpreter itself: `python3` may be a wrapper of a version manager, which costs more than Python does.
fn interpreter() -> &'static str {
    static INTERPRETER: std::sync::OnceLock<String> = std::sync::OnceLock::new();
    INTERPRETER.get_or_init(|| {
        let asked = command("python3").args(["-c", "import sys; print(sys.executable)"]).output();
        let path = asked.ok().and_then(|output| String::from_utf8(output.stdout).ok()).unwrap_or_default();
        if path.trim().is_empty() { "python3".to_owned() } else { path.trim().to_owned() }
    })
}

fn python(code: &str) -> Outcome<String> {
    let output = command(interpreter()).args(["-c", code]).stdin(Stdio::null()).output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
    }
    Ok(String::from_utf8(output.stdout)?)
}

fn command(program: &str) -> Command {
    Command::new(program)
}

/// Median, and the 99th percentile.
fn percentiles(mut times: Vec<Duration>) -> (Duration, Duration) {
    times.sort();
    let at = |percent: usize| times[(times.len() * percent / 100).min(times.len() - 1)];
    (at(50), at(99))
}

fn time<T>(act: impl FnOnce() -> Outcome<T>) -> Outcome<Duration> {
    let started = Instant::now();
    act()?;
    Ok(started.elapsed())
}

#[expect(clippy::print_stdout, reason = "a row of the table")]
fn row(what: &str, ours: &str, against: &str, ratio: &str) {
    println!("| {what} | {ours} | {against} | {ratio} |");
}

fn ratio(ours: Duration, theirs: Duration) -> String {
    format!("{:.2} ×", theirs.as_secs_f64() / ours.as_secs_f64())
}

/// The time of one run as a task of a server sees it: the thread that blocks on a runtime from outside pays two more wake-ups.
async fn timed(sandbox: &Sandbox) -> Outcome<Duration> {
    let sandbox = sandbox.clone();
    let task = tokio::spawn(async move {
        let started = Instant::now();
        let result = sandbox.execute(Request::new(HI)).await;
        (started.elapsed(), result)
    });
    let (took, result) = task.await?;
    printed(&result)?;
    Ok(took)
}

fn fresh(runtime: &tokio::runtime::Runtime, on_demand: &Sandbox, pooled: &Sandbox) -> Outcome<()> {
    let (mut demand_times, mut pooled_times, mut python_times) = (vec![], vec![], vec![]);
    for _ in 0..60 {
        for _ in 0..10 {
            demand_times.push(runtime.block_on(timed(on_demand))?);
            pooled_times.push(runtime.block_on(timed(pooled))?);
        }
        python_times.push(time(|| python(HI))?);
    }
    let (python, _) = percentiles(python_times);
    for (name, times) in [("on demand", demand_times), ("pooled", pooled_times)] {
        let (p50, p99) = percentiles(times);
        let against = format!("{python:.1?} (`python3 -c`)");
        row(
            &format!("fresh sandbox + `print(\"hi\")`, {name}"),
            &format!("{p50:.2?} (p99 {p99:.2?})"),
            &against,
            &ratio(p50, python),
        );
    }
    Ok(())
}

fn cold_process(scratch: &std::path::Path) -> Outcome<()> {
    // A copy, as installing makes one: of the file as the linker writes it, the kernel's cache is in small pieces, which start 1.5 ms slower.
    let binary = scratch.join("gloveport");
    std::fs::copy(std::env::current_exe()?.with_file_name("gloveport"), &binary)?;
    let (mut ours, mut theirs) = (vec![], vec![]);
    for _ in 0..60 {
        ours.push(time(|| Ok(command(&binary.to_string_lossy()).args(["run", "-c", HI, "--json"]).output()?))?);
        theirs.push(time(|| python(HI))?);
    }
    let ((ours, _), (theirs, _)) = (percentiles(ours), percentiles(theirs));
    row(
        "whole process, `gloveport run`",
        &format!("{ours:.1?}"),
        &format!("{theirs:.1?} (`python3 -c`)"),
        &ratio(ours, theirs),
    );
    Ok(())
}

const CALLS: u32 = 5_000;

fn tool_call(runtime: &tokio::runtime::Runtime, sandbox: &Sandbox, scratch: &std::path::Path) -> Outcome<()> {
    let code = format!(
        "from hermes_tools import echo\nimport time\nfor _ in range(200): echo({{'x': 1}})\nt = time.perf_counter()\n\
         for _ in range({CALLS}): echo({{'x': 1}})\nprint((time.perf_counter() - t) / {CALLS})"
    );
    let (mut ours, mut theirs, mut whole, mut whole_polled) = (vec![], vec![], vec![], vec![]);
    for _ in 0..5 {
        let started = Instant::now();
        ours.push(seconds(&printed(&runtime.block_on(sandbox.execute(Request::new(&code))))?)?);
        whole.push(started.elapsed());
        let started = Instant::now();
        theirs.push(seconds(&polled_child(scratch)?)?);
        whole_polled.push(started.elapsed());
    }
    let ((ours, _), (theirs, _)) = (percentiles(ours), percentiles(theirs));
    row(
        "one tool call, JSON both ways",
        &format!("{ours:.1?}"),
        &format!("{theirs:.1?} (`python3`, Unix socket)"),
        &ratio(ours, theirs),
    );
    let ((whole, _), (polled, _)) = (percentiles(whole), percentiles(whole_polled));
    row(
        &format!("script with {CALLS} calls"),
        &format!("{whole:.0?}"),
        &format!("{polled:.0?} (child polled each 0.2 s)"),
        &ratio(whole, polled),
    );
    Ok(())
}

fn seconds(text: &str) -> Outcome<Duration> {
    Ok(Duration::from_secs_f64(text.trim().parse()?))
}

/// The original design: the script is a child, its calls go over a Unix socket, and its parent looks for its end every 0.2 s.
fn polled_child(scratch: &std::path::Path) -> Outcome<String> {
    let path = scratch.join("rpc.sock");
    let _ = std::fs::remove_file(&path);
    let listener = UnixListener::bind(&path)?;
    let server = std::thread::spawn(move || -> std::io::Result<()> {
        let (stream, _) = listener.accept()?;
        let mut writer = stream.try_clone()?;
        for line in BufReader::new(stream).lines() {
            let request: serde_json::Value = serde_json::from_str(&line?)?;
            writer.write_all(format!("{}\n", request["args"]["value"]).as_bytes())?;
        }
        Ok(())
    });
    let code = format!(
        "import json, socket, time\ns = socket.socket(socket.AF_UNIX); s.connect({path:?})\nf = s.makefile('rb')\n\
         def echo(value):\n    s.sendall(json.dumps({{'tool': 'echo', 'args': {{'value': value}}}}).encode() + b'\\n')\n    return json.loads(f.readline())\n\
         for _ in range(200): echo({{'x': 1}})\nt = time.perf_counter()\n\
         for _ in range({CALLS}): echo({{'x': 1}})\nprint((time.perf_counter() - t) / {CALLS})"
    );
    let mut child = command(interpreter()).args(["-c", &code]).stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
    while child.try_wait()?.is_none() {
        std::thread::sleep(POLL);
    }
    let output = child.wait_with_output()?;
    server.join().map_err(|_| "the server panicked")??;
    Ok(String::from_utf8(output.stdout)?)
}

fn cpu(runtime: &tokio::runtime::Runtime, sandbox: &Sandbox) -> Outcome<()> {
    let (mut ours, mut theirs) = (vec![], vec![]);
    for _ in 0..5 {
        ours.push(seconds(&printed(&runtime.block_on(sandbox.execute(Request::new(CPU_JOB))))?)?);
        theirs.push(seconds(&python(CPU_JOB)?)?);
    }
    let ((ours, _), (theirs, _)) = (percentiles(ours), percentiles(theirs));
    let version = python("import platform; print(platform.python_version())")?;
    let slower = ours.as_secs_f64() / theirs.as_secs_f64();
    row(
        "CPU job",
        &format!("{ours:.0?}"),
        &format!("{theirs:.0?} (native {})", version.trim()),
        &format!("{slower:.2} × native time"),
    );
    Ok(())
}

const LIVE: u32 = 50;

fn memory(runtime: &tokio::runtime::Runtime, sandbox: &Sandbox) -> Outcome<()> {
    let before = private_kib()?;
    let during = runtime.block_on(async {
        let code = "from hermes_tools import pause\nprint('hi')\npause(3000)";
        let runs: Vec<_> = (0..LIVE)
            .map(|_| {
                let sandbox = sandbox.clone();
                tokio::spawn(async move { sandbox.execute(Request::new(code)).await })
            })
            .collect();
        tokio::time::sleep(Duration::from_millis(1_500)).await;
        let during = private_kib();
        for run in runs {
            run.await?;
        }
        during
    })?;
    let per_instance = during.saturating_sub(before) / u64::from(LIVE);
    row("private memory of a live instance", &format!("{per_instance} KiB"), "", "");
    Ok(())
}

fn private_kib() -> Outcome<u64> {
    let rollup = std::fs::read_to_string("/proc/self/smaps_rollup")?;
    let line = rollup.lines().find(|line| line.starts_with("Private_Dirty:")).ok_or("no Private_Dirty")?;
    Ok(line.split_whitespace().nth(1).ok_or("no number")?.parse()?)
}

/// Jobs with packages, against native Python with the same packages: `GLOVEPORT_BENCH_PYTHON` names it.
fn science(runtime: &tokio::runtime::Runtime, on_demand: &Sandbox, pooled: &Sandbox) -> Outcome<()> {
    let Ok(native) = std::env::var("GLOVEPORT_BENCH_PYTHON") else { return Ok(()) };
    let small =
        "import numpy as np, pandas as pd\nprint(pd.DataFrame({'a': np.arange(9) % 3, 'b': 1.0}).groupby('a').sum())";
    let (mut fresh, mut slots, mut theirs) = (Vec::new(), Vec::new(), Vec::new());
    for i in 0..60 {
        for (sandbox, times) in [(on_demand, &mut fresh), (pooled, &mut slots)] {
            times.push(time(|| printed(&runtime.block_on(sandbox.execute(Request::new(small)))))?);
        }
        if i % 6 == 0 {
            theirs.push(time(|| Ok(Command::new(&native).args(["-c", small]).output()?))?);
        }
    }
    let native_small = percentiles(theirs).0;
    for (name, times) in [("on demand", fresh), ("pooled", slots)] {
        let (p50, p99) = percentiles(times);
        row(
            &format!("fresh `import numpy, pandas` and a small groupby, {name}"),
            &format!("p50 {p50:.2?}, p99 {p99:.2?}"),
            &format!("{native_small:.0?} (native python3)"),
            &ratio(p50, native_small),
        );
    }
    let product = "import time, numpy as np\na = np.random.default_rng(1).random((600, 600))\na @ a\nt = time.perf_counter()\n\
                   for _ in range(5): a @ a\nprint(time.perf_counter() - t)";
    let grouped = "import time, numpy as np, pandas as pd\nn = 1_000_000\nr = np.random.default_rng(1)\n\
                   df = pd.DataFrame({'k': r.integers(0, 1000, n), 'v': r.random(n)})\ndf.groupby('k')['v'].mean()\n\
                   t = time.perf_counter()\nfor _ in range(3): df.groupby('k')['v'].mean()\nprint(time.perf_counter() - t)";
    for (name, code) in [("5 matrix products, 600 × 600", product), ("3 groupby-means of a million rows", grouped)] {
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for _ in 0..5 {
            ours.push(seconds(&printed(&runtime.block_on(on_demand.execute(Request::new(code))))?)?);
            let mut command = Command::new(&native);
            // One thread, as the guest has.
            command.env("OPENBLAS_NUM_THREADS", "1").args(["-c", code]);
            theirs.push(seconds(&String::from_utf8(command.output()?.stdout)?)?);
        }
        let (ours, theirs) = (percentiles(ours).0, percentiles(theirs).0);
        row(name, &format!("{ours:.0?}"), &format!("{theirs:.0?} (native python3, one thread)"), &ratio(ours, theirs));
    }
    Ok(())
}

fn flood(runtime: &tokio::runtime::Runtime, sandbox: &Sandbox) -> Outcome<()> {
    let code = "s = 'x' * (1 << 20)\nfor _ in range(1 << 10): print(s)";
    let took = time(|| printed(&runtime.block_on(sandbox.execute(Request::new(code)))))?;
    let rate = 1_024.0 / took.as_secs_f64();
    row("1 GiB printed", &format!("{took:.1?}, {rate:.0} MiB/s"), "", "");
    let code = "for _ in range(300_000): print('x' * 100)";
    let took = time(|| printed(&runtime.block_on(sandbox.execute(Request::new(code)))))?;
    row("300,000 × `print` of 100 characters", &format!("{took:.2?}"), "", "");
    Ok(())
}
