//! Secrets in URLs: passwords and tokens before the host, and the paths of webhooks.

use std::sync::LazyLock;

use aho_corasick::AhoCorasick;

use super::mask::Rank;
use super::opaque::{self, Traits, surprise};
use super::redactor::Findings;
use super::scan;
use super::values;
use super::view::{MASKED, View};

const PASSWORD: &str = "url_password";
const TOKEN: &str = "url_token";
const WEBHOOK: &str = "webhook";
const AWS_SECRET: &str = "aws_secret_key";
/// Longest part of a URL that is looked at.
const MAX_PART: usize = 512;
/// Schemes whose passwords people write without escaping `/`.
const DATABASES: &[&[u8]] = &[
    b"postgres",
    b"postgresql",
    b"mysql",
    b"mariadb",
    b"mongodb",
    b"srv",
    b"redis",
    b"rediss",
    b"amqp",
    b"amqps",
    b"mssql",
    b"psycopg2",
    b"asyncpg",
    b"pymysql",
];
/// What documentation writes for a password.
const PLACEHOLDERS: &[&[u8]] = &[
    b"pass",
    b"password",
    b"passwd",
    b"pwd",
    b"pw",
    b"secret",
    b"token",
    b"xxx",
    b"foo",
    b"bar",
    b"pass1",
    b"user",
    b"example",
    b"mypass",
    b"mypassword",
    b"p",
    b"hunter2_",
    b"x-oauth-basic",
    b"x",
    b"psw",
];

static WEBHOOK_GATES: LazyLock<Option<AhoCorasick>> =
    LazyLock::new(|| AhoCorasick::new(WEBHOOKS.iter().map(|(gate, _)| gate)).ok());

/// URLs that are secrets by themselves: what they hold, and how long the rest at least is.
const WEBHOOKS: &[(&[u8], usize)] = &[
    (b"hooks.slack.com/services/", 20),
    (b"hooks.slack.com/workflows/", 20),
    (b"hooks.slack.com/triggers/", 20),
    (b"discord.com/api/webhooks/", 30),
    (b"discordapp.com/api/webhooks/", 30),
    (b".webhook.office.com/webhookb2/", 30),
    (b"outlook.office.com/webhook/", 30),
    (b"hooks.zapier.com/hooks/catch/", 8),
    (b"open.feishu.cn/open-apis/bot/v2/hook/", 20),
    (b"open.larksuite.com/open-apis/bot/v2/hook/", 20),
    (b"oapi.dingtalk.com/robot/send?access_token=", 20),
    (b"qyapi.weixin.qq.com/cgi-bin/webhook/send?key=", 20),
    (b"api.telegram.org/bot", 30),
    (b"maker.ifttt.com/trigger/", 20),
    (b"hook.make.com/", 16),
    (b"hook.eu1.make.com/", 16),
    (b"hook.us1.make.com/", 16),
    (b"chat.googleapis.com/v1/spaces/", 30),
    (b"webhook.site/", 30),
    (b"events.pagerduty.com/integration/", 20),
    (b"api.opsgenie.com/v1/json/", 20),
    (b"mattermost.com/hooks/", 20),
];

/// What the hosts of all webhooks end with. A text without one of these before a slash holds no webhook.
const WEBHOOK_ENDS: &[&[u8]] = &[b".com", b".cn", b".org", b".site"];

/// Reports secrets in the URLs of a view, and secret keys next to AWS key ids.
pub(super) fn find(view: &View<'_>, findings: &mut Findings<'_, '_>) {
    let bytes = view.bytes();
    let mut has_host = false;
    let mut at = 0;
    while let Some(offset) = bytes[at..].iter().position(|byte| matches!(byte, b'/' | b'A')) {
        at += offset;
        has_host |= bytes[at] == b'/' && WEBHOOK_ENDS.iter().any(|end| bytes[..at].ends_with(end));
        match bytes[at] {
            b'/' if at >= 1 && bytes[at - 1] == b':' && bytes.get(at + 1) == Some(&b'/') => {
                userinfo(bytes, at - 1, findings);
            }
            b'/' => {}
            _ => aws_secret(view, at, findings),
        }
        at += 1;
    }
    // Making the automaton takes a good part of a process's start, and few runs need it.
    if has_host {
        webhooks(bytes, findings);
    }
}

fn is_host_end(byte: u8) -> bool {
    byte.is_ascii_whitespace() || matches!(byte, b'"' | b'\'' | b'<' | b'>' | b'`' | b'\\' | b'|' | MASKED)
}

/// The part between `://` and `@`.
fn userinfo(bytes: &[u8], colon: usize, findings: &mut Findings<'_, '_>) {
    let scheme = scan::run_back(bytes, colon, 24, |byte| byte.is_ascii_alphanumeric());
    if scheme == 0 {
        return;
    }
    let start = colon + 3;
    let is_database = DATABASES.contains(&bytes[colon - scheme..colon].to_ascii_lowercase().as_slice());
    let len = scan::run(bytes, start, MAX_PART, |byte| {
        !is_host_end(byte) && (is_database || !matches!(byte, b'/' | b'?' | b'#'))
    });
    let authority = &bytes[start..start + len];
    let Some(at_sign) = authority.iter().rposition(|byte| *byte == b'@') else {
        return;
    };
    let userinfo = &authority[..at_sign];
    match userinfo.iter().position(|byte| *byte == b':') {
        Some(split) => {
            let (user, password) = (&userinfo[..split], &userinfo[split + 1..]);
            if is_password(user, password) {
                findings.push(start + split + 1..start + at_sign, PASSWORD, Rank::Shape);
            }
            if is_token(user) {
                findings.push(start..start + split, TOKEN, Rank::Shape);
            }
        }
        None if is_token(userinfo) => findings.push(start..start + at_sign, TOKEN, Rank::Shape),
        None => {}
    }
}

fn is_password(user: &[u8], password: &[u8]) -> bool {
    let lower = password.to_ascii_lowercase();
    let is_reference =
        matches!(password.first(), None | Some(b'$' | b'{' | b'<' | b'%' | b'[' | b'*' | b'(')) && !is_escape(password);
    let holds = |text: &[u8]| lower.windows(text.len()).any(|window| window == text);
    let is_placeholder = PLACEHOLDERS.contains(&lower.as_slice())
        || holds(b"password") && !Traits::of(password).has_digit
        || holds(b"your")
        || holds(b"xxxx")
        || holds(b"${")
        || holds(b"***")
        || holds(b"...");
    let is_partial = super::mask::is_masked_value(password);
    password.len() >= 3
        && !is_reference
        && !is_placeholder
        && !is_partial
        && password != user
        && !password.contains(&MASKED)
}

/// Whether a text begins with a percent escape, and not with a format's `%s`.
fn is_escape(text: &[u8]) -> bool {
    text.len() >= 3 && text[0] == b'%' && text[1..3].iter().all(u8::is_ascii_hexdigit)
}

fn is_token(text: &[u8]) -> bool {
    let is_plain =
        text.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~' | b'=' | b'%'));
    is_plain && text.len() >= 16 && values::is_credential(text) && opaque::is_random(text)
}

fn webhooks(bytes: &[u8], findings: &mut Findings<'_, '_>) {
    let Some(gates) = WEBHOOK_GATES.as_ref() else {
        return;
    };
    for gate in gates.find_iter(bytes) {
        let start = gate.end();
        let len =
            scan::run(bytes, start, MAX_PART, |byte| !is_host_end(byte) && !matches!(byte, b')' | b',' | b'}' | b']'));
        let rest = &bytes[start..start + len];
        if len >= WEBHOOKS[gate.pattern().as_usize()].1 && Traits::of(rest).has_digit && values::is_credential(rest) {
            findings.push(start..start + len, WEBHOOK, Rank::Extra);
        }
    }
}

/// The secret access key next to an access key id: 40 characters of base64 within the same or the next line.
fn aws_secret(view: &View<'_>, at: usize, findings: &mut Findings<'_, '_>) {
    let bytes = view.bytes();
    let is_id = matches!(bytes.get(at..at + 4), Some(b"AKIA" | b"ASIA"))
        && scan::starts_token(view, at)
        && scan::run(bytes, at + 4, 17, |byte| byte.is_ascii_uppercase() || byte.is_ascii_digit()) == 16;
    if !is_id {
        return;
    }
    let is_base64 = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
    let mut from = at + 20;
    let limit = bytes.len().min(from + 160);
    while from < limit {
        let len = scan::run(bytes, from, 41, is_base64);
        let key = &bytes[from..from + len];
        if len == 40 && Traits::of(key).has_upper && surprise(key) > 20.0 {
            findings.push(from..from + 40, AWS_SECRET, Rank::Vendor);
            return;
        }
        from += len.max(1);
    }
}

#[cfg(test)]
mod tests {
    use super::{WEBHOOK_ENDS, WEBHOOKS};

    #[test]
    fn every_gate_of_a_webhook_has_one_of_the_ends_before_a_slash() {
        let has_end = |gate: &[u8]| {
            let mut hosts = gate.split_inclusive(|byte| *byte == b'/').filter_map(|part| part.strip_suffix(b"/"));
            hosts.any(|host| WEBHOOK_ENDS.iter().any(|end| host.ends_with(end)))
        };
        let without: Vec<_> = WEBHOOKS.iter().filter(|(gate, _)| !has_end(gate)).collect();
        assert!(without.is_empty(), "{without:?} would not be searched");
    }
}
