//! Speed: the worst inputs, a flood, and what redaction costs of it.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use gloveport::output::{Collector, FAMILIES, Limits, Redactor, Sampler, Streamer};

/// Bytes of a worst input.
const INPUT: usize = 50_000;
/// Time for one of them.
const BOUND: Duration = Duration::from_millis(20);

pub(super) fn run() -> Result<()> {
    let redactor = Redactor::new()?;
    let mut slow = Vec::new();
    println!("| 50 KB of | ms |");
    println!("| --- | --- |");
    for unit in WORST {
        let input: String = unit.chars().cycle().take(INPUT).collect();
        // The least of some is the time of the work; the rest is other work on the same machine.
        let took = (0..7).map(|_| time(&redactor, &input)).min().unwrap_or_default();
        println!("| `{}` | {:.2} |", unit.escape_debug(), took.as_secs_f64() * 1e3);
        if took > BOUND {
            slow.push(*unit);
        }
    }
    let off = Redactor::builder().enabled(false).build()?;
    for lines in [1, 64, 1024] {
        flood(&redactor, "on", lines);
        flood(&off, "off", lines);
    }
    known(&redactor)?;
    stream(&redactor);
    if !slow.is_empty() {
        bail!("over {BOUND:?}: {slow:?}");
    }
    Ok(())
}

fn time(redactor: &Redactor, input: &str) -> Duration {
    let begun = Instant::now();
    let _ = redactor.clean(input);
    begun.elapsed()
}

fn flood(redactor: &Redactor, state: &str, lines: usize) {
    let chunk = "a line of ordinary output, with a number 12345 and some more words\n".repeat(lines);
    let mut collector = Collector::new(Limits::STDOUT);
    let begun = Instant::now();
    while collector.total() < 1_000_000_000 {
        collector.push(chunk.as_bytes());
    }
    let total = collector.total();
    let captured = collector.finish(redactor);
    let seconds = begun.elapsed().as_secs_f64();
    println!(
        "flood of 1 GB in writes of {} bytes, redaction {state}: {:.0} MB/s, {} bytes shown",
        chunk.len(),
        total as f64 / seconds / 1e6,
        captured.text.len()
    );
}

/// What it takes to add the values of one run.
fn known(redactor: &Redactor) -> Result<()> {
    let mut sampler = Sampler::new(1);
    let values: Vec<_> = (0..50).map(|at| (format!("NAME_{at}"), sampler.token(&FAMILIES[at]).into())).collect();
    let begun = Instant::now();
    let with_values = redactor.with_known(values)?;
    println!("50 known values: {:.2} ms to add", begun.elapsed().as_secs_f64() * 1e3);
    let text = "a line of ordinary output, with a number 12345 and some more words\n".repeat(INPUT / 67);
    for (state, redactor) in [("without", redactor), ("with", &with_values)] {
        let took = (0..7).map(|_| time(redactor, &text)).min().unwrap_or_default();
        println!("50 KB of ordinary lines {state} them: {:.2} ms", took.as_secs_f64() * 1e3);
    }
    Ok(())
}

fn stream(redactor: &Redactor) {
    let mut streamer = Streamer::new(redactor.clone());
    let begun = Instant::now();
    let mut shown = 0;
    for _ in 0..20_000 {
        shown += streamer.push(b"a line of ordinary output, with a number 12345 and some more words\n").len();
    }
    let seconds = begun.elapsed().as_secs_f64();
    println!(
        "streamed line by line: {:.1} MB/s, {:.1} us a line",
        shown as f64 / seconds / 1e6,
        seconds * 1e6 / 20_000.0
    );
}

/// What worst inputs are repeated from.
pub(super) const WORST: &[&str] = &[
    "a",
    "=",
    "-",
    "0123456789abcdef",
    "\"'",
    "\\\"",
    "\x1b[31m",
    "\x1b]",
    "\u{9b}",
    "\x1b",
    ".",
    "eyJ",
    "eyJ.",
    "sk-",
    "sk-a",
    "ghp_",
    "key=",
    "key: ",
    "\"key\": ",
    "key='",
    "password=\"",
    "token",
    "secret_",
    "KEY=a&",
    "://",
    "a://b@",
    "a://b:c@",
    "-----BEGIN PRIVATE KEY-----",
    "-----BEGIN ",
    "-----BEGIN PRIVATE KEY-----\n",
    "-----END PRIVATE KEY-----",
    "AKIA",
    concat!("AKIA", "0000000000000000 "),
    "Bearer ",
    "bearer a",
    "Authorization: ",
    "cookie: a=b; ",
    "Cookie:",
    "\u{200b}",
    "a\u{200b}",
    "e\u{301}",
    "\u{8}",
    "a\u{8}",
    "\r",
    "\0",
    "%25",
    "%2",
    "\\u0041",
    "\\",
    "\\n",
    "[REDACTED:",
    "[REDACTED:a]",
    "[REDACTED:a]key=",
    "gAAAA",
    ":AA",
    "1234567890:AA",
    "A.aaaaaa.",
    "xoxb-",
    "xapp-1-",
    "hooks.slack.com/services/",
    "https://discord.com/api/webhooks/",
    "1/1:",
    "é",
    concat!("password", ": a1b2c3d4 "),
    concat!("sk", "-a1b2c3d4e5f6g7h8i9j0k1l2 "),
];
