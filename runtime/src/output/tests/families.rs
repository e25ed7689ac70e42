//! The table of vendor keys.

use std::collections::BTreeSet;

use super::support::{assert_sealed, leak, redactor};
use crate::output::{FAMILIES, Redactor, Sampler};

const PLACES: &[&str] = &[
    "export SERVICE_VALUE={}\n",
    "client = Client('{}', timeout=3)\n",
    "{\"value\": \"{}\", \"n\": 1}\n",
    "service:\n  value: {}\n  port: 80\n",
    "X-Custom: {}\r\nAccept: */*\r\n",
    "GET https://api.example.com/v1/items?q=1&v={}&page=2 200\n",
    "ValueError: bad value '{}' given\n",
    "The value in use is {}, as was said before.\n",
    "'first line\\n{}\\nlast line'\n",
    "\x1b[32m{}\x1b[0m\n",
    "%22{}%22",
    "{}",
];

fn all() -> Redactor {
    let names = FAMILIES.iter().map(|family| family.name);
    Redactor::builder().families(["default"]).build().expect("builds");
    Redactor::builder().families(std::iter::once("default").chain(names)).build().expect("builds")
}

#[test]
fn table_is_sound() {
    let names: BTreeSet<&str> = FAMILIES.iter().map(|family| family.name).collect();
    assert_eq!(names.len(), FAMILIES.len(), "each name once");
    assert!(FAMILIES.len() >= 60, "at least 60 families");
    for family in FAMILIES {
        assert!(!family.gates.is_empty() && family.gates.iter().all(|gate| !gate.is_empty()), "{}", family.name);
        assert!(!family.parts.is_empty() && !family.source.is_empty() && !family.licence.is_empty(), "{}", family.name);
        assert!(!family.stays.is_empty(), "{} has look-alikes", family.name);
        assert!(family.name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_'));
    }
}

#[test]
fn s12_recall_of_each_family() {
    // Failing: keys of some family come through in some place. The full measurement is `cargo xtask redaction recall`.
    let redactor = all();
    for family in FAMILIES {
        let mut sampler = Sampler::new(11);
        let mut missed = 0;
        let tries = 10 * PLACES.len();
        for index in 0..tries {
            let key = sampler.token(family);
            let text = PLACES[index % PLACES.len()].replacen("{}", &key, 1);
            if leak(redactor.clean(&text).as_str(), &key).is_some() {
                missed += 1;
            }
        }
        assert!(missed * 50 <= tries, "{}: {missed} of {tries} missed", family.name);
    }
}

#[test]
fn s13_look_alikes_stay() {
    // Failing: ordinary text is masked because it begins like a key.
    let redactor = all();
    for family in FAMILIES {
        for text in family.stays {
            for place in ["{}", "see {} there", "x = \"{}\"\n", "a/{}/b", "{}, {}"] {
                let text = place.replace("{}", text);
                assert_eq!(redactor.clean(&text).as_str(), text, "{}", family.name);
            }
        }
    }
}

#[test]
fn tokens_need_a_boundary() {
    let redactor = all();
    for family in FAMILIES.iter().filter(|family| family.lead.is_none()) {
        let key = Sampler::new(3).token(family);
        if key.as_bytes()[0].is_ascii_alphanumeric() {
            let glued = format!("zz{key}");
            let masked = redactor.clean(&glued);
            assert!(!masked.as_str().starts_with("zz[REDACTED") || family.is_weak, "{}: {masked}", family.name);
        }
    }
    let gitlab = Sampler::new(3).token(super::support::family("gitlab_pat"));
    super::support::assert_unchanged(&redactor, &format!("my{gitlab}"));
}

#[test]
fn s10_keys_in_file_names() {
    // Failing: a key that is part of a path or a container name is shown.
    let redactor = redactor();
    for name in ["github_token", "openai", "stripe", "aws_access_key", "huggingface"] {
        let key = super::support::sample(name, 9);
        for place in ["/tmp/{}.txt", "run-{}", "./{}/log", "container_{}", "C:\\keys\\{}"] {
            assert_sealed(redactor.clean(&place.replace("{}", &key)).as_str(), &key);
        }
    }
}

#[test]
fn shortened_keys_are_told_by_their_look() {
    let redactor = redactor();
    for key in [["sk-", "proj-abc123def456ghi789jkl012"], ["ghp_", "abc123def456ghi789jkl"], ["hf_", "a1B2c3D4e5F6g7"]]
    {
        assert_sealed(redactor.clean(&format!("key {} here", key.concat())).as_str(), key[1]);
    }
}

#[test]
fn families_are_selected_by_name() {
    let key = super::support::sample("npm", 2);
    let text = format!("a {key} b");
    let without = Redactor::builder().families(["-npm"]).build().expect("builds");
    assert_eq!(without.clean(&text).as_str(), text);
    let only = Redactor::builder().families(["npm"]).build().expect("builds");
    assert_eq!(only.clean(&text), "a [REDACTED:npm] b");
    let other = Redactor::builder().families(["stripe"]).build().expect("builds");
    assert_eq!(other.clean(&text).as_str(), text);
    assert!(Redactor::builder().families(["no_such"]).build().is_err());
    let phone = ["+4915", "12345678"].concat();
    assert_eq!(redactor().clean(&phone).as_str(), phone);
    let phones = Redactor::builder().families(["default", "phone"]).build().expect("builds");
    assert_eq!(phones.clean(&phone), "[REDACTED:phone]");
}
