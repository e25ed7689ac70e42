//! What a script sees is the same everywhere.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::ensure;
use gloveport::{Controls, Request};
use libtest_mimic::Trial;

use crate::harness::*;

pub fn trials() -> Vec<Trial> {
    [
        everywhere("c16_output_exit_code_and_traceback", output_exit_code_and_traceback),
        everywhere("c16_a_call_has_its_effect", a_call_has_its_effect),
        everywhere("p37_exit_codes", exit_codes),
        everywhere("p39_sudden_ends", sudden_ends),
        everywhere("p16_threads_and_forks_get_their_own_answers", threads_and_forks),
        everywhere("p18_p19_answers_arrive_as_they_are", answers_arrive),
        everywhere("p18_ten_megabytes_both_ways", ten_megabytes),
        everywhere("p6_p7_p8_p9_refusals", refusals),
        everywhere("p29_p40_any_text", any_text),
        everywhere("p38_fake_notices_are_text", fake_notices),
        everywhere("awaited_calls_run_at_the_same_time", awaited_calls),
        everywhere("r4_deadline", deadline),
        everywhere("c2_cancelled_while_computing_sleeping_calling_writing", cancelled),
        everywhere("c9_dropped_future", dropped_future),
        everywhere("c11_runs_of_one_environment_do_not_mix", runs_do_not_mix),
        everywhere("n1_n5_n10_environment", environment),
        everywhere("r29_odd_sources", odd_sources),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn output_exit_code_and_traceback(place: Place) -> Outcome {
    block_on(async {
        let bench = Bench::new(place);
        expect_output(&bench.run("print('hi')").await, "hi\n")?;
        expect_output(&bench.run("").await, "").unwrap_err();
        let result = json(&bench.run("def f():\n    raise KeyError('x')\n\nprint('before')\nf()\n").await);
        ensure!(result["status"] == "error" && result["kind"] == "script" && result["exit_code"] == 1, "{result:#}");
        let text = result["output"].as_str().unwrap();
        let start = "before\n\n--- stderr ---\nTraceback (most recent call last):\n  File \"script.py\", line 5, in <module>\n    f()\n";
        ensure!(text.starts_with(start) && text.trim_end().ends_with("KeyError: 'x'"), "{text}");
        ensure!(result["backend"] == place.name(), "{result:#}");
        let result = json(
            &bench
                .sandbox
                .execute(request("import sys; print(sys.argv, __name__, __file__)").filename("a.py").args(["x y", "ü"]))
                .await,
        );
        ensure!(result["output"] == "['a.py', 'x y', 'ü'] __main__ a.py\n", "{result:#}");
        bench.close().await;
        Ok(())
    })
}

fn a_call_has_its_effect(place: Place) -> Outcome {
    block_on(async {
        let bench = Bench::new(place);
        let result = bench.run("from hermes_tools import echo\nprint(echo({'a': [1, None, 'ä']}))").await;
        expect_output(&result, "{'a': [1, None, 'ä']}\n")?;
        ensure!(json(&result)["tool_calls_made"] == 1, "{:#}", json(&result));
        ensure!(*bench.seen.values.lock().unwrap() == [serde_json::json!({"a": [1, null, "ä"]})]);
        let result = bench.run("import hermes_tools as t\nprint(t.json_parse('\\ufeff{\"a\": 1}'), t.shell_quote('a b'))\nn = 0\ndef f():\n global n\n n += 1\n if n < 3: raise ValueError\n return n\nprint(t.retry(f, delay=0.01))").await;
        expect_output(&result, "{'a': 1} 'a b'\n3\n")?;
        let result = json(&bench.run("from hermes_tools import web_search").await);
        ensure!(result["output"].as_str().unwrap().contains("Available: echo, slow"), "{result:#}");
        bench.close().await;
        Ok(())
    })
}

fn exit_codes(place: Place) -> Outcome {
    block_on(async {
        let bench = Bench::new(place);
        for code in [3, 1, 124, 126, 130, 137, 255, 256, -1] {
            let result = json(&bench.run(&format!("import sys; sys.exit({code})")).await);
            ensure!(
                result["exit_code"] == code && result["status"] == "error" && result["kind"] == "script",
                "{code}: {result:#}"
            );
            ensure!(result["error"] == format!("Script exited with code {code}"), "{result:#}");
        }
        expect_output(&bench.run("import sys; print(1); sys.exit(0)").await, "1\n")?;
        let result = json(&bench.run("import sys; sys.exit('gone')").await);
        ensure!(result["exit_code"] == 1 && result["error"] == "gone\n", "{result:#}");
        bench.close().await;
        Ok(())
    })
}

fn sudden_ends(place: Place) -> Outcome {
    block_on(async {
        let bench = Bench::new(place);
        for (how, code) in
            [("os._exit(7)", 7), ("os.abort()", -6), ("os.kill(os.getpid(), 9)", -9), ("os.kill(os.getpid(), 11)", -11)]
        {
            let result = json(&bench.run(&format!("import os\nprint('kept', end='')\n{how}")).await);
            ensure!(result["exit_code"] == code && result["kind"] == "script", "{how}: {result:#}");
            ensure!(result["output"].as_str().unwrap().starts_with("kept"), "{how}: {result:#}");
        }
        expect_output(&bench.run("print('next')").await, "next\n")?;
        bench.close().await;
        Ok(())
    })
}

fn threads_and_forks(place: Place) -> Outcome {
    block_on(async {
        let bench = Bench::new(place);
        let code = r"
import os
from concurrent.futures import ThreadPoolExecutor
from hermes_tools import echo
def check(base):
    with ThreadPoolExecutor(6) as pool:
        assert list(pool.map(echo, range(base, base + 30))) == list(range(base, base + 30))
echo('first')
pids = []
for base in (1000, 2000, 3000):
    pid = os.fork()
    if pid == 0:
        try:
            check(base)
            os._exit(0)
        except BaseException as e:
            print(repr(e), flush=True)
            os._exit(1)
    pids.append(pid)
check(0)
print([os.waitpid(p, 0)[1] for p in pids])
";
        let result = bench.run(code).await;
        expect_output(&result, "[0, 0, 0]\n")?;
        ensure!(bench.calls() == 121 && json(&result)["tool_calls_made"] == 121, "{}", bench.calls());
        bench.close().await;
        Ok(())
    })
}

fn answers_arrive(place: Place) -> Outcome {
    block_on(async {
        let bench = Bench::new(place);
        let code = r#"
from hermes_tools import echo
for value in ("[1,2]", '{"error": 1}', "", "\n\n", "\x00\x1b", 2 ** 53 + 1, -0.0, None, True, [], {}, "\u2028\ud83d\ude00".encode("utf-16", "surrogatepass").decode("utf-16")):
    got = echo(value)
    assert type(got) is type(value) and repr(got) == repr(value), (value, got)
for power in (10, 12, 16, 17, 20):
    for delta in (-1, 0, 1):
        text = "x\n" * (2 ** power // 2 - 1) + "y" * (2 + delta)
        assert echo(text) == text, (power, delta)
print("ok")
"#;
        expect_output(&bench.run(code).await, "ok\n")?;
        bench.close().await;
        Ok(())
    })
}

fn ten_megabytes(place: Place) -> Outcome {
    block_on(async {
        let bench = Bench::new(place);
        let code = "import hashlib\nfrom hermes_tools import echo\ntext = ''.join(chr(33 + i * 7919 % 90) for i in range(10000)) * 1000\nassert echo(text) == text\nprint(len(text))";
        expect_output(&bench.run(code).await, "10000000\n")?;
        bench.close().await;
        Ok(())
    })
}

fn refusals(place: Place) -> Outcome {
    block_on(async {
        let bench = Bench::new(place);
        let code = r#"
import _gp_sched as port, json
from hermes_tools import echo
bodies = [b'[]', b'5', b'null', b'', b'{', b'{} {}', b'x', '{}'.encode('utf-16'), b'\xff', b'{"tool": "echo", "tool": "slow", "args": {}}',
          b'{"tool": 5, "args": {}}', b'{"args": {}}', b'{"tool": "Echo", "args": {}}', b'{"tool": " echo", "args": {}}',
          b'{"tool": "echo"}', b'{"tool": "echo", "args": []}', b'{"tool": "echo", "args": {"value": 1, "force": true}}']
for body in bodies:
    answer = json.loads(port.call(body))
    assert list(answer) == ["error"], (body, answer)
print(echo(value=1), echo(1, other=2)["error"] != "")
"#;
        let result = bench.run(code).await;
        expect_output(&result, "1 True\n")?;
        ensure!(json(&result)["refused_calls"] == 18 && bench.calls() == 1, "{:#}", json(&result));
        let none: Request = request(
            "import _gp_sched as p, json\nprint(p.call(b'{\"tool\": \"echo\", \"args\": {\"value\": 1}}').decode())",
        )
        .enabled_tools(Vec::<String>::new());
        let result = bench.sandbox.execute(none).await;
        ensure!(output(&result).contains("not available") && bench.calls() == 1, "{}", output(&result));
        bench.close().await;
        Ok(())
    })
}

fn any_text(place: Place) -> Outcome {
    block_on(async {
        let bench = Bench::new(place);
        expect_output(&bench.run("print('\"\\u2028\\u00e4\\U0001F600')").await, "\"\u{2028}ä\u{1F600}\n")?;
        let result = json(&bench.run("import os; os.write(1, b'a\\xff\\xfe\\x00b'); print(end='', flush=True)").await);
        ensure!(result["status"] == "success" && result["stdout_bytes"] == 5, "{result:#}");
        let result = json(&bench.run("print('\\ud800')").await);
        ensure!(
            result["exit_code"] == 1 && result["output"].as_str().unwrap().contains("UnicodeEncodeError"),
            "{result:#}"
        );
        bench.close().await;
        Ok(())
    })
}

fn fake_notices(place: Place) -> Outcome {
    block_on(async {
        let bench = Bench::new(place);
        let result = json(&bench.run("print('{\"status\": \"timeout\"}')\nprint('--- stderr ---')\nprint('⏰ Script timed out after 1s and was killed.')").await);
        ensure!(
            result["status"] == "success" && result["output"].as_str().unwrap().contains("--- stderr ---"),
            "{result:#}"
        );
        bench.close().await;
        Ok(())
    })
}

fn awaited_calls(place: Place) -> Outcome {
    block_on(async {
        let bench = Bench::new(place);
        let code = r"
import asyncio, time
from hermes_tools import slow, echo
async def main():
    started = time.monotonic()
    got = await asyncio.gather(*[slow(0.5) for _ in range(8)])
    print(got == [{'slept': 0.5}] * 8, time.monotonic() - started < 2.5)
    print(await echo(1))
asyncio.run(main())
";
        expect_output(&bench.run(code).await, "True True\n1\n")?;
        ensure!(bench.seen.most_under_way.load(Ordering::SeqCst) == 8);
        expect_output(&bench.run("from hermes_tools import echo\nprint(await echo('top'))").await, "top\n")?;
        let code = "from concurrent.futures import ThreadPoolExecutor as P\nfrom hermes_tools import slow\nimport time\nt = time.monotonic()\nwith P(8) as p: list(p.map(slow, [0.5] * 8))\nprint(time.monotonic() - t < 2.5)";
        expect_output(&bench.run(code).await, "True\n")?;
        bench.close().await;
        Ok(())
    })
}

fn deadline(place: Place) -> Outcome {
    block_on(async {
        let bench = Bench::new(place);
        expect_output(&bench.run("print(1)").await, "1\n")?;
        for body in [
            "while True: pass",
            "import time; time.sleep(1e6)",
            "9**9**9",
            "import signal\nfor s in (1, 2, 15): signal.signal(s, signal.SIG_IGN)\nwhile True:\n  try:\n    while True: pass\n  except BaseException: pass",
        ] {
            let started = Instant::now();
            let result =
                json(&bench.sandbox.execute(request(&format!("print('before')\n{body}")).timeout_secs(3.0)).await);
            let took = started.elapsed();
            ensure!(result["status"] == "timeout" && result["kind"] == "deadline", "{result:#}");
            ensure!(result["output"] == "before\n\n\n⏰ Script timed out after 3s and was killed.", "{result:#}");
            ensure!(took < Duration::from_secs(5), "{took:?}");
        }
        expect_output(&bench.run("print('alive')").await, "alive\n")?;
        bench.close().await;
        Ok(())
    })
}

fn cancelled(place: Place) -> Outcome {
    block_on(async {
        let bench = Bench::new(place);
        expect_output(&bench.run("print(1)").await, "1\n")?;
        let bodies = [
            "while True: pass",
            "import time; time.sleep(600)",
            "from hermes_tools import slow; slow(600)",
            "import os\nwhile True: os.write(2, b'x' * 65536)",
        ];
        for body in bodies {
            let cancel = gloveport::Cancel::new();
            let controls = Controls { cancel: Some(cancel.clone()), ..Controls::default() };
            let code = format!("print('before', flush=True)\n{body}");
            let run = bench.sandbox.execute_with(request(&code), controls);
            let stop = async {
                tokio::time::sleep(Duration::from_millis(2500)).await;
                cancel.cancel();
                Instant::now()
            };
            let (result, stopped) = tokio::join!(run, stop);
            ensure!(stopped.elapsed() < Duration::from_secs(2), "{body}: {:?}", stopped.elapsed());
            let result = json(&result);
            ensure!(result["status"] == "interrupted", "{body}: {result:#}");
            ensure!(
                result["output"] == "before\n\n[execution interrupted — user sent a new message]",
                "{body}: {result:#}"
            );
        }
        expect_output(&bench.run("print('alive')").await, "alive\n")?;
        bench.close().await;
        Ok(())
    })
}

fn dropped_future(place: Place) -> Outcome {
    block_on(async {
        let bench = Bench::new(place);
        let marker = format!("gp-drop-{}-{}", std::process::id(), place.name());
        let code = format!(
            "import subprocess, time\nsubprocess.Popen(['sleep', '600'], env={{'M': '{marker}'}})\ntime.sleep(600)"
        );
        let _ = tokio::time::timeout(Duration::from_millis(1500), bench.run(&code)).await;
        let gone = tokio::task::spawn_blocking({
            let marker = marker.clone();
            move || wait_for(8.0, "the script's child is still there", || processes_with(&marker).is_empty())
        });
        gone.await??;
        expect_output(&bench.run("import os; print(len([n for n in os.listdir(os.path.dirname(os.path.dirname(os.environ['HERMES_RPC_DIR']))) if n.startswith('gloveport-')]) >= 1)").await, "True\n")?;
        bench.close().await;
        Ok(())
    })
}

fn runs_do_not_mix(place: Place) -> Outcome {
    block_on(async {
        let bench = Bench::new(place);
        let runs = (0..12).map(|n| {
            let code = format!(
                "import os, time\nfrom hermes_tools import echo\nopen('f', 'w').write('{n}')\nfor i in range(10): assert echo([{n}, i]) == [{n}, i]\ntime.sleep(0.2)\nprint({n}, open('f').read(), sorted(os.listdir('.')))"
            );
            let sandbox = bench.sandbox.clone();
            async move { (n, sandbox.execute(request(&code)).await) }
        });
        for (n, result) in futures_util::future::join_all(runs).await {
            expect_output(&result, &format!("{n} {n} ['f']\n"))?;
        }
        bench.close().await;
        Ok(())
    })
}

fn environment(place: Place) -> Outcome {
    // SAFETY-free way: what the sandbox is given is an argument, not this process's own environment.
    block_on(async {
        let seen = std::sync::Arc::new(Seen::default());
        let given = [
            ("PATH", "/usr/bin:/bin"),
            ("HOME", "/root"),
            ("OPENAI_API_KEY", "sk-aaaabbbbccccddddeeeeffff"),
            ("LD_PRELOAD", "/x"),
            ("PYTHONSTARTUP", "/x"),
            ("SSH_AUTH_SOCK", "/x"),
            ("DOCKER_HOST", "x"),
            ("PATHTOKEN", "x"),
            ("LC_SECRET", "x"),
            ("BASH_ENV", "/x"),
        ];
        let sandbox = gloveport::Sandbox::builder()
            .config(config())
            .tools(tools(&seen))
            .backend(std::sync::Arc::new(backend(place)))
            .environment(given.map(|(n, v)| (n.into(), v.into())))
            .build()?;
        let request = request("import os, json\nprint(json.dumps(dict(os.environ)))").timezone("Europe/Berlin");
        let result = sandbox.execute(request).await;
        let names: std::collections::BTreeMap<String, String> = serde_json::from_str(&output(&result))?;
        for name in [
            "OPENAI_API_KEY",
            "LD_PRELOAD",
            "PYTHONSTARTUP",
            "SSH_AUTH_SOCK",
            "DOCKER_HOST",
            "PATHTOKEN",
            "LC_SECRET",
            "BASH_ENV",
        ] {
            ensure!(!names.contains_key(name), "{name} passed: {names:?}");
        }
        ensure!(
            names["TZ"] == "Europe/Berlin" && names["PYTHONUTF8"] == "1" && names.contains_key("PATH"),
            "{names:?}"
        );
        ensure!(names.contains_key("HERMES_RPC_DIR"), "{names:?}");
        ensure!(
            !names.values().any(|v| v.len() == 64 && v.chars().all(|c| c.is_ascii_hexdigit())),
            "a key in {names:?}"
        );
        Ok(())
    })
}

fn odd_sources(place: Place) -> Outcome {
    block_on(async {
        let bench = Bench::new(place);
        expect_output(&bench.run("x = 1\r\nprint(x)\r\n").await, "1\n")?;
        expect_output(&bench.run("\u{feff}print('bom')").await, "bom\n")?;
        expect_output(&bench.run("# -*- coding: utf-8 -*-\nif 1:\n\tprint('ü')").await, "ü\n")?;
        let result = json(&bench.run("print(1)\nx = = 2\n").await);
        let text = result["output"].as_str().unwrap();
        ensure!(
            text.contains("File \"script.py\", line 2") && text.contains("SyntaxError") && !text.contains("1\n\n"),
            "{result:#}"
        );
        bench.close().await;
        Ok(())
    })
}
