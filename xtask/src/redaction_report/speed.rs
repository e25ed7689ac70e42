//! Speed: the worst inputs, a flood, and what redaction costs of it.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use gloveport::output::{Collector, Limits, Redactor};

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
    flood(&redactor, "on");
    flood(&Redactor::builder().enabled(false).build()?, "off");
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

fn flood(redactor: &Redactor, state: &str) {
    let chunk = "a line of ordinary output, with a number 12345 and some more words\n".repeat(1024);
    let mut collector = Collector::new(Limits::STDOUT);
    let begun = Instant::now();
    while collector.total() < 1_000_000_000 {
        collector.push(chunk.as_bytes());
    }
    let total = collector.total();
    let captured = collector.finish(redactor);
    let seconds = begun.elapsed().as_secs_f64();
    println!("flood of 1 GB, redaction {state}: {:.0} MB/s, {} bytes shown", total as f64 / seconds / 1e6, captured.text.len());
}

/// What worst inputs are repeated from.
pub(super) const WORST: &[&str] = &[
    "a", "=", "-", "0123456789abcdef", "\"'", "\\\"", "\x1b[31m", "\x1b]", "\u{9b}", "\x1b", ".", "eyJ", "eyJ.", "sk-",
    "sk-a", "ghp_", "key=", "key: ", "\"key\": ", "key='", "password=\"", "token", "secret_", "KEY=a&", "://", "a://b@", "a://b:c@",
    "-----BEGIN PRIVATE KEY-----", "-----BEGIN ", "-----BEGIN PRIVATE KEY-----\n", "-----END PRIVATE KEY-----", "AKIA",
    "AKIA0000000000000000 ", "Bearer ", "bearer a", "Authorization: ", "cookie: a=b; ", "Cookie:", "\u{200b}", "a\u{200b}", "e\u{301}",
    "\u{8}", "a\u{8}", "\r", "\0", "%25", "%2", "\\u0041", "\\", "\\n", "[REDACTED:", "[REDACTED:a]", "[REDACTED:a]key=", "gAAAA",
    ":AA", "1234567890:AA", "A.aaaaaa.", "xoxb-", "xapp-1-", "hooks.slack.com/services/", "https://discord.com/api/webhooks/", "1/1:", "é", "password: a1b2c3d4 ",
    "sk-a1b2c3d4e5f6g7h8i9j0k1l2 ",
];
