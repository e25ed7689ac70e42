//! `search_files` beside `rg` on a large directory: `SPEED_DIR=~/.rustup cargo test --release -p gloveport-tools --test main -- --ignored --nocapture speed`.

use std::io::Read as _;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use gloveport_tools::{Guard, HostWorkspace, reading_tools};
use serde_json::{Value, json};

use crate::support::{Bench, call, context};

const ROUNDS: usize = 5;

/// Kilobytes of memory that this process had at most.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

fn rg(dir: &str, args: &[&str]) -> (Duration, usize) {
    let began = Instant::now();
    let mut command = Command::new("rg");
    command.args(["--no-config", "--no-require-git", "--no-ignore-parent", "--no-ignore-global"]).args(args).arg(dir);
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let mut output = child.stdout.take().unwrap();
    // Counted as it comes: the memory of this process is measured.
    let (mut lines, mut buffer) = (0, vec![0; 1 << 16]);
    loop {
        let length = output.read(&mut buffer).unwrap();
        if length == 0 {
            break;
        }
        lines += buffer[..length].iter().filter(|&&b| b == b'\n').count();
    }
    child.wait().unwrap();
    (began.elapsed(), lines)
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a large directory in SPEED_DIR, and rg"]
async fn search_is_as_fast_as_ripgrep() {
    let dir = std::env::var("SPEED_DIR").unwrap();
    let workspace = Arc::new(HostWorkspace::builder(&dir).open().unwrap());
    let tools = reading_tools(&Guard::default());
    let queries: [(&str, Value, &[&str]); 4] = [
        ("rare word", json!({ "pattern": "from_raw_parts_mut", "limit": 10_000 }), &["-n", "from_raw_parts_mut"]),
        ("no hit", json!({ "pattern": "zzqqxxyy" }), &["-n", "zzqqxxyy"]),
        (
            "pattern",
            json!({ "pattern": "unsafe fn \\w+_unchecked", "output_mode": "count", "limit": 10_000 }),
            &["-c", "unsafe fn \\w+_unchecked"],
        ),
        ("first 50 of many", json!({ "pattern": "the" }), &["-n", "the"]),
    ];
    for (name, args, typed) in queries {
        let (mut ours, mut theirs) = (Duration::MAX, Duration::MAX);
        let (mut found, mut lines) = (Value::Null, 0);
        for _ in 0..ROUNDS {
            let (took, count) = rg(&dir, typed);
            (theirs, lines) = (theirs.min(took), count);
            let began = Instant::now();
            let answer = call(&tools, "search_files", args.clone(), &context(Some(workspace.clone()))).await;
            ours = ours.min(began.elapsed());
            found = answer;
        }
        let ratio = ours.as_secs_f64() / theirs.as_secs_f64();
        println!(
            "{name}: search_files {ours:.2?} ({} found), rg {theirs:.2?} ({lines} lines), {ratio:.2} x, peak {} MB",
            found["total_count"],
            peak() / 1024
        );
    }
}

/// `cargo test -p gloveport-tools --test main -- --ignored --nocapture patch_of_large`
#[tokio::test]
#[ignore = "a figure"]
async fn patch_of_large_files() {
    let bench = Bench::new();
    let line = |n: usize| format!("    let value_{n} = compute({n}, \"some text that is as long as lines are\");\n");
    let block =
        |change: &dyn Fn(usize, String) -> String| (15_000..15_010).map(|n| change(n, line(n))).collect::<String>();
    let typo = |text: String| text.replace("compute", "compote");
    let edits = [
        ("one exact line", 200_000, line(150_000), true),
        ("ten lines with other indentation", 200_000, block(&|_, text| text.trim_start().to_owned()), true),
        (
            "ten lines, the inner ones only similar",
            20_000,
            block(&|n, text| if n % 15_009 % 15_000 == 0 { text } else { typo(text) }),
            true,
        ),
        (
            "ten lines that are only similar, refused with the closest sections",
            20_000,
            block(&|_, text| typo(text)),
            false,
        ),
    ];
    for (name, lines, old, found) in edits {
        let mut best = Duration::MAX;
        for _ in 0..ROUNDS {
            bench.put("large.rs", (0..lines).map(line).collect::<String>());
            let began = Instant::now();
            let answer = bench
                .call("patch", json!({ "path": "large.rs", "old_string": old, "new_string": "    changed();\n" }))
                .await;
            best = best.min(began.elapsed());
            assert_eq!(answer["success"], found, "{name}: {answer}");
        }
        println!("patch of {lines} lines, {name}: {best:.2?}");
    }
}
