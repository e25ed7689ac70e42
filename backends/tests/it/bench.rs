//! Figures: a call, a start. Bounds are the issue's; a busy machine is given some slack by `GP_BENCH_SLACK` (a factor).

use std::time::Instant;

use anyhow::ensure;
use libtest_mimic::Trial;

use crate::harness::*;

pub fn trials() -> Vec<Trial> {
    [
        everywhere("bench_ten_thousand_calls", calls),
        everywhere("bench_warm_start", warm_start),
        on(&[Place::Ssh, Place::Docker], "bench_polled_original", polled),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn slack() -> f64 {
    std::env::var("GP_BENCH_SLACK").ok().and_then(|text| text.parse().ok()).unwrap_or(3.0)
}

fn calls(place: Place) -> Outcome {
    block_on(async {
        let bench = Bench::new(place);
        let code = r"
from hermes_tools import echo
import time
def once():
    t = time.perf_counter(); echo(1); return time.perf_counter() - t
for _ in range(100): once()
took = sorted(once() for _ in range(10000))
print(took[5000] * 1e3, took[9900] * 1e3)
";
        let mut request = request(code);
        request.list_tool_calls = false;
        let text = output(&bench.sandbox.execute(request).await);
        let figures: Vec<f64> = text.split_whitespace().map(str::parse).collect::<Result<_, _>>()?;
        eprintln!("{}: a call p50 {:.3} ms, p99 {:.3} ms", place.name(), figures[0], figures[1]);
        ensure!(figures[0] <= slack() && figures[1] <= 10.0 * slack(), "{figures:?}");
        bench.close().await;
        Ok(())
    })
}

fn warm_start(place: Place) -> Outcome {
    block_on(async {
        let bench = Bench::new(place);
        expect_output(&bench.run("print(1)").await, "1\n")?;
        let mut took: Vec<f64> = Vec::new();
        for _ in 0..30 {
            let started = Instant::now();
            expect_output(&bench.run("print(1)").await, "1\n")?;
            took.push(started.elapsed().as_secs_f64() * 1e3);
        }
        took.sort_by(f64::total_cmp);
        eprintln!("{}: a whole run in a warm environment p50 {:.0} ms, p90 {:.0} ms", place.name(), took[15], took[27]);
        ensure!(took[15] <= 60.0 * slack(), "{took:?}");
        bench.close().await;
        Ok(())
    })
}

/// What the original did: each side looks every so often, the host by starting a process for each look.
fn polled(place: Place) -> Outcome {
    block_on(async {
        let workspace = {
            use gloveport::backend::Backend as _;
            backend(place).workspace("default").await?.ok_or_else(|| anyhow::anyhow!("no workspace"))?
        };
        let look = gloveport::workspace::Command {
            command: "ls /tmp | grep -c req_".into(),
            workdir: None,
            timeout: std::time::Duration::from_secs(5),
            env: vec![],
            keep: (100, 0),
            confined: false,
        };
        let started = Instant::now();
        for _ in 0..10 {
            // Look for the request; put the answer down; the script looks 50 ms later on average.
            workspace.run(look.clone()).await?;
            workspace.run(look.clone()).await?;
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
        eprintln!("{}: a call by polling {:.1} ms", place.name(), started.elapsed().as_secs_f64() * 100.0);
        Ok(())
    })
}
