//! Floods, daemons, crowds, and what is left afterwards.

use std::time::{Duration, Instant};

use anyhow::ensure;
use libtest_mimic::Trial;

use crate::harness::*;

pub fn trials() -> Vec<Trial> {
    [
        everywhere("r11_a_gigabyte_of_output", gigabyte),
        everywhere("r12_both_streams_flooded", both_streams),
        everywhere("r19_r14_calls_during_a_flood", calls_during_flood),
        everywhere("r27_daemons_do_not_outlive_their_run", daemons),
        everywhere("r28_nasty_trees", nasty_trees),
        everywhere("r31_many_runs_leave_nothing", many_runs),
        everywhere("c1_p33_a_hundred_runs_at_once", crowd),
        everywhere("p17_a_call_after_a_long_silence", long_silence),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn memory_mb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() / 1024
}

fn gigabyte(place: Place) -> Outcome {
    block_on(async {
        let bench = Bench::new(place);
        expect_output(&bench.run("print(1)").await, "1\n")?;
        let before = memory_mb();
        let started = Instant::now();
        let result = json(&bench.run("import os\nb = b'x' * (1 << 20)\nfor _ in range(1024): os.write(1, b)").await);
        let rate = 1024.0 / started.elapsed().as_secs_f64();
        let grown = memory_mb().saturating_sub(before);
        eprintln!("{}: 1 GiB of output at {rate:.0} MB/s, host memory +{grown} MB", place.name());
        ensure!(result["status"] == "success" && result["stdout_bytes"] == 1u64 << 30, "{result:#}");
        ensure!(grown < 48, "host memory grew by {grown} MB");
        bench.close().await;
        Ok(())
    })
}

fn both_streams(place: Place) -> Outcome {
    block_on(async {
        let bench = Bench::new(place);
        let code = "import os\nfor i in range(2000):\n  os.write(1, b'o' * 10007)\n  os.write(2, b'e' * 5003)";
        let result = json(&bench.run(code).await);
        ensure!(result["stdout_bytes"] == 2000 * 10007 && result["stderr_bytes"] == 2000 * 5003, "{result:#}");
        bench.close().await;
        Ok(())
    })
}

fn calls_during_flood(place: Place) -> Outcome {
    block_on(async {
        let bench = Bench::new(place);
        let code = r"
import os, threading, time, sys
from hermes_tools import echo
def flood():
    while True: os.write(1, b'x' * 65536)
threading.Thread(target=flood, daemon=True).start()
time.sleep(0.3)
worst = 0
for i in range(50):
    t = time.monotonic(); echo(i); worst = max(worst, time.monotonic() - t)
os.write(2, b'worst %.3f' % worst)
os._exit(5)
";
        let result = json(&bench.run(code).await);
        let worst: f64 = result["error"].as_str().unwrap_or("worst 99").trim_start_matches("worst ").parse()?;
        eprintln!("{}: slowest of 50 calls during a flood {worst} s", place.name());
        ensure!(result["exit_code"] == 5 && worst < 2.0, "{result:#}");
        bench.close().await;
        Ok(())
    })
}

fn daemons(place: Place) -> Outcome {
    block_on(async {
        let bench = Bench::new(place);
        let marker = format!("gp-daemon-{}-{}", std::process::id(), place.name());
        let code = format!(
            r"
import os, signal, time
if os.fork() == 0:
    os.setsid(); signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if os.fork() == 0:
        os.execve('/bin/sleep', ['sleep', '601'], {{'M': '{marker}'}})
    os._exit(0)
time.sleep(0.3)
print('done')
"
        );
        expect_output(&bench.run("print(1)").await, "1\n")?;
        let started = Instant::now();
        expect_output(&bench.run(&code).await, "done\n")?;
        ensure!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
        ensure!(processes_with(&marker).is_empty(), "the daemon is alive");
        bench.close().await;
        Ok(())
    })
}

fn nasty_trees(place: Place) -> Outcome {
    block_on(async {
        let bench = Bench::new(place);
        let code = r"
import os
top = os.getcwd()
for i in range(3000):
    os.mkdir('d'); os.chdir('d')
os.chdir(top)
os.mkdir('locked'); os.mkdir('locked/in'); os.symlink('/etc', 'link'); os.chmod('locked', 0)
for i in range(2000): open('f%d' % i, 'w').close()
print(os.environ['HERMES_RPC_DIR'])
";
        let result = bench.run(code).await;
        let text = output(&result);
        let directory = std::path::Path::new(text.trim()).parent().unwrap().to_owned();
        let check = format!("import os; print(os.path.exists({:?}))", directory.display().to_string());
        expect_output(&bench.run(&check).await, "False\n")?;
        ensure!(std::path::Path::new("/etc/passwd").exists());
        bench.close().await;
        Ok(())
    })
}

fn many_runs(place: Place) -> Outcome {
    block_on(async {
        let bench = Bench::new(place);
        for n in 0..40 {
            expect_output(
                &bench.run(&format!("from hermes_tools import echo\nprint(echo({n}))")).await,
                &format!("{n}\n"),
            )?;
        }
        let code = "import os\nplace = os.path.dirname(os.path.dirname(os.environ['HERMES_RPC_DIR']))\nprint(sum(n.startswith('gloveport-') and os.stat(os.path.join(place, n)).st_uid == os.getuid() and n in os.environ['HERMES_RPC_DIR'] for n in os.listdir(place)))";
        expect_output(&bench.run(code).await, "1\n")?;
        bench.close().await;
        Ok(())
    })
}

fn crowd(place: Place) -> Outcome {
    block_on(async {
        let bench = Bench::new(place);
        let started = Instant::now();
        let runs = (0..100).map(|n| {
            let sandbox = bench.sandbox.clone();
            let code = match n % 4 {
                0 => format!("raise SystemExit({})", n + 1),
                _ => format!("from hermes_tools import echo\nimport time\ntime.sleep(0.05)\nprint(echo({n}))"),
            };
            async move { (n, sandbox.execute(request(&code).timeout_secs(280.0)).await) }
        });
        for (n, result) in futures_util::future::join_all(runs).await {
            let seen = json(&result);
            match n % 4 {
                0 => ensure!(seen["exit_code"] == n + 1, "{n}: {seen:#}"),
                _ => expect_output(&result, &format!("{n}\n"))?,
            }
        }
        eprintln!("{}: 100 runs at once in {:.1} s", place.name(), started.elapsed().as_secs_f64());
        bench.close().await;
        Ok(())
    })
}

fn long_silence(place: Place) -> Outcome {
    block_on(async {
        let bench = Bench::new(place);
        // Longer than lease and keep-alive; the ten minutes of the catalogue would only repeat it.
        let code = "from hermes_tools import echo\nimport time\ntime.sleep(14)\nprint(echo(1))\ntime.sleep(14)\nprint(echo(2))";
        expect_output(&bench.run(code).await, "1\n2\n")?;
        bench.close().await;
        Ok(())
    })
}
