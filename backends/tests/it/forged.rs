//! Scripts that know the protocol and abuse it. They have the run's key, as every script could find it.

use anyhow::ensure;
use libtest_mimic::Trial;

use crate::harness::*;

pub fn trials() -> Vec<Trial> {
    [
        everywhere("p2_requests_that_are_not_authentic", not_authentic),
        everywhere("p3_replays_are_answered_from_the_journal", replays),
        everywhere("p4_same_number_other_content", same_number),
        everywhere("p10_requests_that_are_no_files", no_files),
        everywhere("p11_answers_whose_names_are_taken", names_taken),
        everywhere("p12_p13_slow_and_vanishing_requests", slow_and_vanishing),
        everywhere("p15_the_bell_flooded_and_gone", bell),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Helpers of a forging script: its own port's state, raw requests, raw answers.
const FORGE: &str = r"
import os, sys, time, json
import _gp_sched as s
port = s.port()
rpc = os.environ['HERMES_RPC_DIR']
os.chdir(rpc)
def ring():
    fd = os.open('bell', os.O_WRONLY | os.O_NONBLOCK); os.write(fd, b'x'); os.close(fd)
def put(seq, content):
    with open('tmp_%06d' % seq, 'wb') as f: f.write(content)
    os.rename('tmp_%06d' % seq, 'req_%06d' % seq); ring()
def get(seq, seconds=3.0):
    end = time.time() + seconds
    while time.time() < end:
        try:
            data = open('res_%06d' % seq, 'rb').read(); os.unlink('res_%06d' % seq); return data
        except FileNotFoundError: time.sleep(0.005)
def sealed(seq, body): return port._sealed(b'q', seq, port._ring_number, body)
def call(value): return json.dumps({'tool': 'echo', 'args': {'value': value}}).encode()
";

async fn forge(bench: &Bench, body: &str) -> serde_json::Value {
    json(&bench.run(&format!("{FORGE}{body}")).await)
}

fn not_authentic(place: Place) -> Outcome {
    block_on(async {
        let bench = Bench::new(place);
        let body = r"
put(1, b'GP1 q 1 1 2 ' + b'0' * 64 + b'\n{}')
put(2, call(1)); put(3, b''); put(4, sealed(5, call(1)))
good = sealed(6, call('good')); put(6, good.replace(b'good', b'evil'))
print([get(n, 0.3) for n in (1, 2, 3, 4, 6)])
from hermes_tools import echo
port._rpc
os.pwrite(port._seq, b'100', 0)
print(echo('still fine'))
";
        let result = forge(&bench, body).await;
        ensure!(result["output"] == "[None, None, None, None, None]\nstill fine\n", "{result:#}");
        ensure!(bench.calls() == 1 && result["tool_calls_made"] == 1, "{result:#}");
        let result = forge(&bench, "for n in range(1, 300): put(n, b'x'); time.sleep(0.002)\ntime.sleep(5)").await;
        ensure!(result["status"] == "error" && result["kind"] == "protocol", "{result:#}");
        bench.close().await;
        Ok(())
    })
}

fn replays(place: Place) -> Outcome {
    block_on(async {
        let bench = Bench::new(place);
        let body = r"
request = sealed(1, call('once'))
answers = []
for _ in range(3): put(1, request); answers.append(get(1))
print(answers[0] is not None and len(set(answers)) == 1)
";
        let result = forge(&bench, body).await;
        ensure!(result["output"] == "True\n" && bench.calls() == 1 && result["tool_calls_made"] == 1, "{result:#}");
        bench.close().await;
        Ok(())
    })
}

fn same_number(place: Place) -> Outcome {
    block_on(async {
        let bench = Bench::new(place);
        let result = forge(
            &bench,
            "put(1, sealed(1, call(1))); get(1); print('before'); put(1, sealed(1, call(2))); time.sleep(20)",
        )
        .await;
        ensure!(result["status"] == "error" && result["kind"] == "protocol", "{result:#}");
        ensure!(result["output"].as_str().unwrap().starts_with("before") && bench.calls() == 1, "{result:#}");
        bench.close().await;
        Ok(())
    })
}

fn no_files(place: Place) -> Outcome {
    block_on(async {
        let bench = Bench::new(place);
        let body = r"
os.symlink('/etc/passwd', 'req_000001'); os.mkfifo('req_000002'); os.mkdir('req_000003'); open('req_000003/x', 'w').close()
open('../plain', 'wb').write(sealed(4, call(4))); os.link('../plain', 'tmp_000004'); os.rename('tmp_000004', 'req_000004')
f = open('tmp_000005', 'wb'); f.truncate(200 << 20); f.close(); os.rename('tmp_000005', 'req_000005')
ring()
started = time.time()
answers = [get(n) for n in range(1, 6)]
print([b'refused' in a for a in answers], time.time() - started < 2)
print(sorted(n for n in os.listdir('.') if n.startswith('req')), os.path.exists('/etc/passwd'))
";
        let result = forge(&bench, body).await;
        ensure!(
            result["output"] == "[True, True, True, True, True] True\n[] True\n" && bench.calls() == 0,
            "{result:#}"
        );
        bench.close().await;
        Ok(())
    })
}

fn names_taken(place: Place) -> Outcome {
    block_on(async {
        let bench = Bench::new(place);
        let body = r"
open('../work/target', 'w').write('untouched')
os.symlink(os.path.abspath('../work/target'), 'res_000001'); os.mkfifo('res_000002'); os.mkdir('res_000003'); open('res_000003/x', 'w').close()
for n in (1, 2, 3): put(n, sealed(n, call(n)))
time.sleep(0.5)
print([os.path.isfile('res_%06d' % n) and not os.path.islink('res_%06d' % n) for n in (1, 2, 3)], open('../work/target').read())
";
        let result = forge(&bench, body).await;
        ensure!(result["output"] == "[True, True, True] untouched\n" && bench.calls() == 3, "{result:#}");
        bench.close().await;
        Ok(())
    })
}

fn slow_and_vanishing(place: Place) -> Outcome {
    block_on(async {
        let bench = Bench::new(place);
        let body = r"
content = sealed(1, call('slow'))
with open('tmp_000001', 'wb', buffering=0) as f:
    for i in range(0, len(content), 40): f.write(content[i:i + 40]); ring(); time.sleep(0.02)
os.rename('tmp_000001', 'req_000001'); ring()
print(get(1) is not None)
for n in range(100):
    open('req_%06d' % (n + 10), 'w').close()
    try: os.unlink('req_%06d' % (n + 10))
    except FileNotFoundError: pass
os.pwrite(port._seq, b'1000', 0)
from hermes_tools import echo
print(echo('next'))
";
        let result = forge(&bench, body).await;
        ensure!(result["output"] == "True\nnext\n", "{result:#}");
        bench.close().await;
        Ok(())
    })
}

fn bell(place: Place) -> Outcome {
    block_on(async {
        let bench = Bench::new(place);
        let body = r"
fd = os.open('bell', os.O_WRONLY | os.O_NONBLOCK)
for _ in range(1000000):
    try: os.write(fd, b'x')
    except BlockingIOError: pass
from hermes_tools import echo
print(echo(1))
os.unlink('bell'); open('bell', 'w').close()
started = time.time()
port._bell = None
print(echo(2), time.time() - started < 2)
";
        let result = forge(&bench, body).await;
        ensure!(result["output"] == "1\n2 True\n", "{result:#}");
        bench.close().await;
        Ok(())
    })
}
