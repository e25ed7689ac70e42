//! Recall: samples of every family in the places where keys turn up.

use anyhow::{Result, bail};
use gloveport::output::{FAMILIES, Family, Redactor, Sampler};

/// Samples of each family, spread over the places.
pub(super) const SAMPLES: usize = 1000;
/// Part that must be masked, of each family.
const BOUND: f64 = 0.98;

/// A place, as a text with a hole for the key.
pub(super) const PLACES: &[(&str, &str)] = &[
    ("assignment", "export SERVICE_VALUE={}\n"),
    ("python", "client = Client('{}', timeout=3)\n"),
    ("json", "{\"name\": \"x\", \"value\": \"{}\", \"n\": 1}\n"),
    ("yaml", "service:\n  value: {}\n  port: 80\n"),
    ("header", "> GET /v1/items HTTP/1.1\n> X-Custom: {}\n> Accept: */*\n"),
    ("url", "GET https://api.example.com/v1/items?q=1&v={}&page=2 200\n"),
    (
        "traceback",
        "Traceback (most recent call last):\n  File \"a.py\", line 3, in <module>\nValueError: bad value '{}' given\n",
    ),
    ("prose", "The value in use is {}, as was said before.\n"),
    ("repr", "'first line\\n{}\\nlast line'\n"),
    ("end", "{}"),
];

pub(super) fn run() -> Result<()> {
    let redactor = Redactor::builder().families(all_names()).build()?;
    let mut missed_bound = Vec::new();
    println!("| family | recall | weakest place |");
    println!("| --- | --- | --- |");
    for family in FAMILIES {
        let (recall, weakest) = measure(&redactor, family);
        println!("| {} | {:.1} % | {} |", family.name, recall * 100.0, weakest);
        if recall < BOUND {
            missed_bound.push(family.name);
        }
    }
    println!("\n{} families, {SAMPLES} samples each", FAMILIES.len());
    missed_bound.extend(super::shapes::run(&redactor, BOUND));
    if !missed_bound.is_empty() {
        bail!("below {:.0} %: {}", BOUND * 100.0, missed_bound.join(", "));
    }
    Ok(())
}

fn all_names() -> Vec<&'static str> {
    std::iter::once("default").chain(FAMILIES.iter().map(|family| family.name)).collect()
}

fn measure(redactor: &Redactor, family: &Family) -> (f64, String) {
    let mut sampler = Sampler::new(family.name.len() as u64 + 7);
    let mut masked = vec![0_usize; PLACES.len()];
    let mut tried = vec![0_usize; PLACES.len()];
    for index in 0..SAMPLES {
        let place = index % PLACES.len();
        let secret = sampler.token(family);
        let text = PLACES[place].1.replacen("{}", &secret, 1);
        tried[place] += 1;
        if !leaks(redactor.clean(&text).as_str(), &secret) {
            masked[place] += 1;
        }
    }
    let part = |place: usize| masked[place] as f64 / tried[place] as f64;
    let weakest = (0..PLACES.len()).min_by(|one, other| part(*one).total_cmp(&part(*other))).unwrap_or(0);
    let recall = masked.iter().sum::<usize>() as f64 / SAMPLES as f64;
    let weakest = if part(weakest) == 1.0 {
        "-".to_owned()
    } else {
        format!("{} {:.0} %", PLACES[weakest].0, part(weakest) * 100.0)
    };
    (recall, weakest)
}

/// Whether eight characters in a row of the secret are in the text, names in masks aside.
pub(super) fn leaks(text: &str, secret: &str) -> bool {
    let mut shown = String::new();
    for (index, piece) in text.split("[REDACTED:").enumerate() {
        shown.push_str(if index == 0 { piece } else { piece.split_once(']').map_or("", |(_, rest)| rest) });
        shown.push('\n');
    }
    let text = shown;
    secret
        .as_bytes()
        .windows(8.min(secret.len()))
        .any(|piece| text.as_bytes().windows(piece.len()).any(|window| window == piece))
}
