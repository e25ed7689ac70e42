//! From the bytes of a page to Markdown. Pure.

use std::sync::LazyLock;

use dom_smoothie::{Config, Readability};
use encoding_rs::Encoding;
use htmd::HtmlToMarkdown;
use regex::Regex;

use super::providers::Page;

/// How deep tags may be nested. Browsers stop at 512; readers recurse, so a deeper page is read as plain text.
const MAX_DEPTH: usize = 1_000;
/// Elements that the search for the main part looks at.
const MAX_ELEMENTS: usize = 200_000;
/// Bytes at the start of a page in which it may name its encoding.
const SNIFF: usize = 1_024;
/// A main part shorter than this, of a page that is longer, was not the main part.
const MIN_ARTICLE: usize = 200;

/// What a page is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Html,
    Text,
}

/// What a content type stands for, and the encoding that it names. Without one a page is taken for HTML.
pub(crate) fn content_type(value: &str) -> Result<(Kind, Option<String>), String> {
    let mut parts = value.split(';').map(str::trim);
    let essence = parts.next().unwrap_or_default().to_ascii_lowercase();
    let charset = parts.find_map(|part| {
        let (name, value) = part.split_once('=')?;
        name.trim().eq_ignore_ascii_case("charset").then(|| value.trim().trim_matches('"').to_owned())
    });
    let kind = match essence.as_str() {
        "" | "text/html" | "application/xhtml+xml" => Kind::Html,
        "application/json"
        | "application/xml"
        | "application/javascript"
        | "application/x-javascript"
        | "application/yaml"
        | "application/toml" => Kind::Text,
        other if other.starts_with("text/") || other.ends_with("+json") || other.ends_with("+xml") => Kind::Text,
        other => return Err(format!("content of type {other} can't be read as text")),
    };
    Ok((kind, charset))
}

/// The text of a page: by its byte-order mark, the server's word, the page's own, UTF-8, or what browsers fall back to.
pub(crate) fn decode(bytes: &[u8], charset: Option<&str>, kind: Kind) -> Result<String, String> {
    let named = charset.and_then(|label| Encoding::for_label(label.as_bytes()));
    let own = || (kind == Kind::Html).then(|| meta_charset(bytes)).flatten();
    let encoding = match named.or_else(own) {
        Some(encoding) => encoding,
        None if std::str::from_utf8(bytes).is_ok_and(|_| true) || is_cut_utf8(bytes) => encoding_rs::UTF_8,
        None => encoding_rs::WINDOWS_1252,
    };
    let (text, encoding, _) = encoding.decode(bytes);
    if encoding == encoding_rs::UTF_8 && memchr::memchr(0, &bytes[..bytes.len().min(SNIFF)]).is_some() {
        return Err("the page is binary data".into());
    }
    Ok(text.into_owned())
}

/// Whether bytes are UTF-8 but for a character that was cut at the end.
fn is_cut_utf8(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_err_and(|error| error.error_len().is_none())
}

fn meta_charset(bytes: &[u8]) -> Option<&'static Encoding> {
    static META: LazyLock<Option<Regex>> =
        LazyLock::new(|| Regex::new(r#"(?i)<meta[^>]{0,200}charset\s*=\s*["']?\s*([a-z0-9_:.-]{1,40})"#).ok());
    let start = String::from_utf8_lossy(&bytes[..bytes.len().min(SNIFF)]);
    let found = META.as_ref()?.captures(&start)?;
    let encoding = Encoding::for_label(found[1].as_bytes())?;
    // A page that can be read this far as ASCII is not UTF-16, whatever it says.
    Some(if encoding == encoding_rs::UTF_16BE || encoding == encoding_rs::UTF_16LE {
        encoding_rs::UTF_8
    } else {
        encoding
    })
}

/// The main part of a page as Markdown, with links made absolute; the whole page where no main part stands out.
pub(crate) fn markdown(html: &str, address: &str) -> Page {
    if depth(html) > MAX_DEPTH {
        return Page { title: title(html), content: plain(html) };
    }
    let config = Config { max_elements_to_parse: MAX_ELEMENTS, ..Config::default() };
    let article = Readability::new(html, Some(address), Some(config)).ok().and_then(|mut reader| reader.parse().ok());
    let (named, main) = article.map(|article| (article.title.clone(), convert(&article.content))).unwrap_or_default();
    let enough = |text: &str| text.chars().count() >= MIN_ARTICLE;
    let content = if enough(&main) {
        main
    } else {
        Some(convert(html)).filter(|whole| enough(whole) || main.is_empty()).unwrap_or(main)
    };
    Page { title: if named.is_empty() { title(html) } else { named }, content }
}

fn convert(html: &str) -> String {
    let skipped = vec!["script", "style", "noscript", "template", "svg", "iframe", "head", "nav", "footer", "form"];
    let converter = HtmlToMarkdown::builder().skip_tags(skipped).build();
    converter.convert(html).map_or_else(|_| plain(html), |text| text.trim().to_owned())
}

fn title(html: &str) -> String {
    static TITLE: LazyLock<Option<Regex>> =
        LazyLock::new(|| Regex::new(r"(?is)<title[^>]{0,200}>(.{0,500}?)</title>").ok());
    let found = TITLE.as_ref().and_then(|title| title.captures(html));
    found.map(|found| words(&found[1])).unwrap_or_default()
}

/// The text of a page without its tags.
fn plain(html: &str) -> String {
    static HIDDEN: LazyLock<Option<Regex>> =
        LazyLock::new(|| Regex::new(r"(?is)<script\b.*?</script>|<style\b.*?</style>|<!--.*?-->|<[^>]*>").ok());
    HIDDEN.as_ref().map(|hidden| words(&hidden.replace_all(html, " "))).unwrap_or_default()
}

fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// How deep tags are nested at most: an upper bound, counted from the text without recursion.
fn depth(html: &str) -> usize {
    let (mut depth, mut deepest) = (0usize, 0usize);
    for at in memchr::memchr_iter(b'<', html.as_bytes()) {
        let tag = &html.as_bytes()[at + 1..];
        let (closing, name) = match tag.first() {
            Some(b'/') => (true, &tag[1..]),
            _ => (false, tag),
        };
        let len = name.iter().take(12).take_while(|byte| byte.is_ascii_alphanumeric()).count();
        if len == 0 || !name[0].is_ascii_alphabetic() || never_nests(&name[..len]) {
            continue;
        }
        if closing {
            depth = depth.saturating_sub(1);
        } else {
            depth += 1;
            deepest = deepest.max(depth);
        }
    }
    deepest
}

/// Elements without content, and those whose end is implied by the next of their kind.
fn never_nests(name: &[u8]) -> bool {
    const NAMES: &[&str] = &[
        "area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source", "track", "wbr",
        "p", "li", "dt", "dd", "option", "optgroup", "tr", "td", "th", "thead", "tbody", "tfoot", "rp", "rt", "path",
        "html", "head", "body",
    ];
    NAMES.iter().any(|known| name.eq_ignore_ascii_case(known.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_types_are_told_apart() {
        assert_eq!(content_type("text/html; charset=\"ISO-8859-1\""), Ok((Kind::Html, Some("ISO-8859-1".into()))));
        assert_eq!(content_type("application/ld+json"), Ok((Kind::Text, None)));
        assert_eq!(content_type(""), Ok((Kind::Html, None)));
        assert_eq!(
            content_type("application/pdf"),
            Err("content of type application/pdf can't be read as text".into())
        );
    }

    #[test]
    fn encodings_are_found() {
        let latin = b"<html><meta charset='iso-8859-1'>caf\xe9";
        assert!(decode(latin, None, Kind::Html).unwrap().ends_with("caf\u{e9}"));
        assert_eq!(decode(b"caf\xc3\xa9", None, Kind::Text).unwrap(), "caf\u{e9}");
        assert_eq!(decode(b"caf\xe9!", None, Kind::Text).unwrap(), "caf\u{e9}!");
        assert_eq!(decode(b"\x82\xa0", Some("shift_jis"), Kind::Text).unwrap(), "\u{3042}");
        assert_eq!(decode(b"\xff\xfea\0", None, Kind::Text).unwrap(), "a");
        assert_eq!(decode(b"a\0b", None, Kind::Text), Err("the page is binary data".into()));
    }

    #[test]
    fn the_main_part_becomes_markdown() {
        let text = "This is a sentence of the article, long enough to count as content for the reader. ".repeat(8);
        let html = format!(
            "<html><head><title>A page</title><script>alert(1)</script></head><body><nav><a href='/x'>menu</a></nav><article><h1>Head</h1><p>{text}</p>\
             <p>See <a href='/more'>more</a>.</p><ul><li>one</li><li>two</li></ul></article><footer>imprint</footer></body></html>"
        );
        let page = markdown(&html, "https://example.com/a/b");
        assert_eq!(page.title, "A page");
        assert!(page.content.contains("[more](https://example.com/more)"), "{}", page.content);
        assert!(
            page.content.contains("one") && !page.content.contains("alert") && !page.content.contains("menu"),
            "{}",
            page.content
        );
    }

    #[test]
    fn a_short_page_is_shown_as_a_whole() {
        let page = markdown("<title>T</title><h1>Hi</h1><p>Some <b>bold</b> text.</p>", "https://example.com/");
        assert_eq!((page.title.as_str(), page.content.as_str()), ("T", "## Hi\n\nSome **bold** text."));
    }

    /// If this fails, a page can overflow the stack and end the process.
    #[test]
    fn nesting_is_bounded() {
        for tag in ["div", "b", "table><tr><td", "ul><li", "svg><g", "a href=x", "blockquote", "x-y"] {
            let html = format!("{}deep text", format!("<{tag}>").repeat(100_000));
            let page = std::thread::Builder::new()
                .stack_size(64 << 20)
                .spawn(move || markdown(&html, "https://example.com/"))
                .unwrap()
                .join()
                .unwrap();
            assert!(page.content.contains("deep text"), "{tag}");
        }
        assert_eq!(depth("<p>a<p>b<br><li>c"), 0);
        assert_eq!(depth("<div><span></span></div><div></div>"), 2);
    }
}
