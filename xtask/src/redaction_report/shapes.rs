//! Recall of what is told by its place and not by a vendor's prefix: assignments, headers, cookies, URLs, key blocks.

use gloveport::output::{Class, FAMILIES, Redactor, Sampler};

use super::recall::{SAMPLES, leaks};

/// One kind of secret: its name, and a generator of a text and the secret in it.
type Shape = (&'static str, fn(&mut Sampler, usize) -> (String, String));

const SHAPES: &[Shape] = &[
    ("assignment, key", key),
    ("assignment, password", password),
    ("header", header),
    ("cookie", cookie),
    ("private_key", private_key),
    ("url_password", url_password),
    ("url_token", url_token),
    ("webhook", webhook),
    ("aws_secret_key", aws_secret_key),
];

const KEY_NAMES: &[&str] = &[
    "API_KEY",
    "api_key",
    "clientSecret",
    "AUTH_TOKEN",
    "secret",
    "access_token",
    "SERVICE_KEY",
    "x-api-key",
    "private_key",
];
const PASSWORD_NAMES: &[&str] =
    &["password", "DB_PASSWORD", "DB_PASS", "passwd", "MYSQL_PW", "smtpPassword", "passphrase"];
const FORMS: &[&str] = &[
    "{n}={v}\n",
    "export {n}=\"{v}\"\n",
    "{n} = '{v}'\n",
    "{\"x\": 1, \"{n}\": \"{v}\"}\n",
    "service:\n  {n}: {v}\n",
    "{'{n}': '{v}', 'y': 2}\n",
    "> {n}: {v}\r\n",
    "GET https://h.example/p?a=1&{n}={v}&b=2\n",
    "ValueError: bad config {'{n}': '{v}'}\n",
    "the setting {n}={v}, as was said\n",
];

/// Prints the table and returns the shapes below the bound.
pub(super) fn run(redactor: &Redactor, bound: f64) -> Vec<&'static str> {
    let mut missed_bound = Vec::new();
    println!("\n| shape | recall |\n| --- | --- |");
    for (name, generate) in SHAPES {
        let mut sampler = Sampler::new(name.len() as u64);
        let masked = (0..SAMPLES).filter(|index| {
            let (text, secret) = generate(&mut sampler, *index);
            !leaks(redactor.clean(&text).as_str(), &secret)
        });
        let recall = masked.count() as f64 / SAMPLES as f64;
        println!("| {name} | {:.1} % |", recall * 100.0);
        if recall < bound {
            missed_bound.push(*name);
        }
    }
    missed_bound
}

fn fill(index: usize, names: &[&str], secret: String) -> (String, String) {
    let form = FORMS[index % FORMS.len()];
    let name = names[index / FORMS.len() % names.len()];
    (form.replace("{n}", name).replace("{v}", &secret), secret)
}

fn opaque(sampler: &mut Sampler, min: usize, max: usize) -> String {
    let len = min + sampler.below(max - min + 1);
    let class = [Class::Alnum, Class::Alnum, Class::Url, Class::Hex][sampler.below(4)];
    sampler.text(class, len)
}

fn key(sampler: &mut Sampler, index: usize) -> (String, String) {
    fill(index, KEY_NAMES, opaque(sampler, 20, 64))
}

fn password(sampler: &mut Sampler, index: usize) -> (String, String) {
    let len = 10 + sampler.below(11);
    fill(index, PASSWORD_NAMES, sampler.text(Class::Alnum, len))
}

fn header(sampler: &mut Sampler, index: usize) -> (String, String) {
    let secret = opaque(sampler, 20, 80);
    let forms = [
        "Authorization: Bearer {}\n",
        "{'Authorization': 'Bearer {}'}",
        "Proxy-Authorization: Token {}\r\n",
        "-H \"X-Api-Key: {}\"",
        "PRIVATE-TOKEN: {}\n",
        "x-auth-token: {}\n",
        "curl -H 'authorization: bearer {}' https://h.example/",
    ];
    (forms[index % forms.len()].replace("{}", &secret), secret)
}

fn cookie(sampler: &mut Sampler, index: usize) -> (String, String) {
    let secret = opaque(sampler, 20, 64);
    let forms = [
        "Cookie: theme=dark; sessionid={}\n",
        "Set-Cookie: sid={}; Path=/; HttpOnly\r\n",
        "{\"Cookie\": \"auth={}; a=b\"}",
    ];
    (forms[index % forms.len()].replace("{}", &secret), secret)
}

fn private_key(sampler: &mut Sampler, index: usize) -> (String, String) {
    let label =
        ["RSA PRIVATE KEY", "EC PRIVATE KEY", "OPENSSH PRIVATE KEY", "PRIVATE KEY", "ENCRYPTED PRIVATE KEY"][index % 5];
    let line_end = ["\n", "\r\n", "\\n", "\n  "][index % 4];
    let line = sampler.text(Class::Alnum, 64);
    let rest = sampler.text(Class::Alnum, 40);
    let end = if index.is_multiple_of(3) { String::new() } else { format!("{line_end}-----END {label}-----") };
    (format!("key: -----BEGIN {label}-----{line_end}{line}{line_end}{rest}{end}"), line)
}

fn url_password(sampler: &mut Sampler, index: usize) -> (String, String) {
    let len = 8 + sampler.below(20);
    let secret = sampler.text(Class::Url, len);
    let scheme = ["postgres", "mysql", "mongodb+srv", "redis", "amqps", "https", "ftp"][index % 7];
    (format!("DSN {scheme}://app:{secret}@db.internal:5432/prod"), secret)
}

fn url_token(sampler: &mut Sampler, index: usize) -> (String, String) {
    let secret = opaque(sampler, 20, 40);
    let forms = [
        "git clone https://{}@github.com/o/r.git",
        "https://{}@o1.ingest.example/2",
        "https://{}:x-oauth-basic@github.com/o/r",
    ];
    (forms[index % forms.len()].replace("{}", &secret), secret)
}

fn webhook(sampler: &mut Sampler, index: usize) -> (String, String) {
    let secret = sampler.text(Class::Alnum, 40);
    let forms = [
        "https://hooks.slack.com/services/T0AB12CD3/B0EF45GH6/{}",
        "https://discord.com/api/webhooks/123456789012345678/{}",
        "https://hooks.zapier.com/hooks/catch/123456/{}",
        "https://example.webhook.office.com/webhookb2/{}",
    ];
    (forms[index % forms.len()].replace("{}", &secret), secret)
}

fn aws_secret_key(sampler: &mut Sampler, index: usize) -> (String, String) {
    let secret = sampler.text(Class::Alnum, 40);
    let family = FAMILIES.iter().find(|family| family.name == "aws_access_key");
    let id = family
        .map(|family| sampler.token(family))
        .unwrap_or_default()
        .replacen("ABIA", "AKIA", 1)
        .replacen("ACCA", "ASIA", 1);
    let forms = [
        "{i},{s}",
        "aws_access_key_id = {i}\naws_secret_access_key = {s}\n",
        "('{i}', '{s}')",
        "{\"id\": \"{i}\", \"key\": \"{s}\"}",
    ];
    (forms[index % forms.len()].replace("{i}", &id).replace("{s}", &secret), secret)
}
