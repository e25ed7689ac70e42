//! Images: fresh random state, the choice by imports, what is said when one can't be used.

use std::collections::HashSet;

use gloveport::config::ImageChoice;
use gloveport::wasi::{Allocation, WasiBackend, WasiOptions};
use gloveport::{Request, Sandbox};
use libtest_mimic::Trial;

use crate::harness::{self, options, printed};

/// Instances whose random numbers are compared.
const INSTANCES: usize = 1_000;

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        harness::science_trial("images::a_thousand_instances_have_their_own_random_numbers".into(), fresh_random),
        harness::science_trial("images::auto_takes_the_image_that_has_the_imports".into(), |_| auto()),
        harness::science_trial("images::time_zones_are_right_without_a_c_library_that_knows_them".into(), time_zones),
        harness::science_trial("images::figures_and_tables_come_where_they_are_asked_for".into(), figures_and_tables),
        harness::science_trial("images::the_result_names_the_image".into(), named),
        harness::trial("images::a_missing_image_is_named".into(), || async { missing() }),
    ]
}

async fn fresh_random(sandbox: Sandbox) {
    let code = "import random, uuid\nimport numpy as np\nimport sympy.core.random\n\
                print(np.random.default_rng().random(), np.random.rand(), random.random(), uuid.uuid4(), \
                sympy.core.random.rng.random())";
    let mut seen = HashSet::new();
    for _ in 0..INSTANCES {
        let result = sandbox.execute(Request::new(code)).await;
        seen.extend(printed(&result).split_whitespace().map(str::to_owned));
    }
    assert_eq!(seen.len(), INSTANCES * 5);
}

async fn auto() {
    let sandbox = harness::on_image(harness::images_directory(), ImageChoice::Auto).expect("the backend starts");
    for (code, image) in [
        ("print(1)", "slim"),
        ("# import pandas\nprint('import numpy')", "slim"),
        ("def f():\n    from pandas import DataFrame\nprint(1)", "science"),
        ("import json, numpy.linalg as la", "science"),
        ("import numpy as (", "slim"),
    ] {
        let result = sandbox.execute(Request::new(code)).await;
        assert_eq!(result.image.expect("an image").name, image, "{code}");
    }
}

async fn time_zones(sandbox: Sandbox) {
    // Summer and winter, both sides of a change, the southern hemisphere, before the first and behind the last transition.
    let code = "
import datetime, time, zoneinfo
zone = zoneinfo.ZoneInfo(time.tzname and __import__('os').environ['TZ'])
wrong = []
for second in [*range(-3_000_000_000, 5_000_000_000, 7_654_321), 4_102_444_800, 13_000_000_000, 20_000_000_000]:
    ours = time.localtime(second)
    right = datetime.datetime.fromtimestamp(second, zone)
    if ours[:6] != right.timetuple()[:6] or ours.tm_gmtoff != right.utcoffset().total_seconds() or ours.tm_zone != right.tzname():
        wrong.append((second, ours[:6], str(right)))
    if datetime.datetime.fromtimestamp(second).timestamp() not in (second, second + 3600, second - 3600):
        wrong.append(second)
print(len(wrong), wrong[:3], time.strftime('%Y-%m-%d %H:%M %Z', time.localtime(1_720_000_000)), time.tzname)
";
    for (zone, expected) in [
        ("Europe/Berlin", "0 [] 2024-07-03 11:46 CEST ('CET', 'CEST')\n"),
        ("America/New_York", "0 [] 2024-07-03 05:46 EDT ('EST', 'EDT')\n"),
        ("Australia/Sydney", "0 [] 2024-07-03 19:46 AEST ('AEST', 'AEDT')\n"),
        ("Asia/Kolkata", "0 [] 2024-07-03 15:16 IST ('IST', 'IST')\n"),
    ] {
        let result = sandbox.execute(Request::new(code).timezone(zone)).await;
        assert_eq!(printed(&result), expected, "{zone}");
    }
}

async fn named(sandbox: Sandbox) {
    let result = sandbox.execute(Request::new("print(1)")).await;
    let image = result.image.clone().expect("an image");
    assert_eq!((image.name.as_str(), image.sha256.len()), ("science", 64));
    assert!(result.to_json().contains(&format!(r#""image":"science@sha256:{}""#, image.sha256)));
}

fn missing() {
    let image = ImageChoice::Named("absent".to_owned());
    let error = WasiBackend::new(&WasiOptions { image, ..options(Allocation::OnDemand) }).err().expect("no backend");
    let text =
        "there is no image absent; `gloveport image build absent` makes it, `gloveport image list` shows what is there";
    assert_eq!(error.to_string(), text);
}

async fn figures_and_tables(sandbox: Sandbox) {
    let code = "import matplotlib.pyplot as plt\nfor n in range(3):\n    plt.figure()\n    plt.plot([n, 1])\n\
                import pandas as pd\npd.DataFrame({'a': [1]})";
    let result = sandbox.execute(Request::new(code).figures(2).tables(true)).await;
    assert_eq!(printed(&result), "|    |   a |\n|---:|----:|\n|  0 |   1 |\n");
    assert_eq!(result.figures.len(), 2);
    assert!(result.figures.iter().all(|figure| figure.starts_with(b"\x89PNG")));
    let unasked = sandbox.execute(Request::new(code)).await;
    assert_eq!((printed(&unasked).as_str(), unasked.figures.len()), ("", 0));
    let awaited = "import asyncio\nimport pandas as pd\nasync def table():\n    await asyncio.sleep(0)\n    return pd.DataFrame({'a': [1]})\nawait table()";
    let result = sandbox.execute(Request::new(awaited).tables(true)).await;
    assert_eq!(printed(&result), "|    |   a |\n|---:|----:|\n|  0 |   1 |\n");
    let failing = sandbox.execute(Request::new(format!("{code}\n1 / 0")).figures(9)).await;
    assert_eq!((failing.exit_code, failing.figures.len()), (Some(1), 3));
}
