//! The web tools against servers on loopback, which only tests may reach.

use std::collections::HashMap;
use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use gloveport::config::WebConfig;
use gloveport::tool::Tool;
use gloveport_tools::{WebError, WebTools};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::support::{call, context};

/// Requests that a server saw, heads and bodies.
type Seen = Arc<Mutex<Vec<String>>>;

/// A server that answers each path with bytes, headers included. A path that is not there gets 404.
async fn serve(pages: HashMap<&'static str, Vec<u8>>) -> (SocketAddr, Seen) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let seen = Seen::default();
    let (log, pages) = (Arc::clone(&seen), Arc::new(pages));
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let (log, pages) = (Arc::clone(&log), Arc::clone(&pages));
            tokio::spawn(async move {
                let mut head = vec![0; 65_536];
                let count = stream.read(&mut head).await.unwrap_or(0);
                let request = String::from_utf8_lossy(&head[..count]).into_owned();
                let path =
                    request.split(' ').nth(1).unwrap_or_default().split('?').next().unwrap_or_default().to_owned();
                log.lock().unwrap().push(request);
                let missing = page("404 Not Found", "content-type: text/plain\r\n", b"no");
                _ = stream.write_all(pages.get(path.as_str()).unwrap_or(&missing)).await;
                _ = stream.shutdown().await;
            });
        }
    });
    (address, seen)
}

fn page(status: &str, headers: &str, body: &[u8]) -> Vec<u8> {
    let head = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n{headers}\r\n", body.len());
    [head.as_bytes(), body].concat()
}

fn html(body: &str) -> Vec<u8> {
    page("200 OK", "content-type: text/html; charset=utf-8\r\n", body.as_bytes())
}

fn redirect(to: &str) -> Vec<u8> {
    page("302 Found", &format!("location: {to}\r\n"), b"")
}

fn tools(config: Value, loopback: bool) -> Result<Vec<Arc<dyn Tool>>, WebError> {
    let config: WebConfig = serde_json::from_value(config).unwrap();
    let builder = WebTools::new(&config, |name| (name == "TEST_KEY").then(|| "key-from-environment".into()));
    let builder = if loopback { builder.allow_for_tests(IpAddr::V4(Ipv4Addr::LOCALHOST)) } else { builder };
    builder.build()
}

async fn extract(urls: &[String], loopback: bool) -> Value {
    let tools = tools(json!({ "extract": "builtin" }), loopback).unwrap();
    call(&tools, "web_extract", json!({ "urls": urls }), &context(None)).await
}

#[test]
fn without_a_provider_the_tools_are_not_offered() {
    assert_eq!(tools(json!({}), false).unwrap().len(), 0);
    let names = |config| tools(config, false).unwrap().iter().map(|tool| tool.spec().name).collect::<Vec<_>>();
    assert_eq!(names(json!({ "extract": "builtin" })), ["web_extract"]);
    assert_eq!(
        names(json!({ "search": "searxng", "providers": { "searxng": { "url": "http://x.test" } } })),
        ["web_search"]
    );
    let refused = |config| tools(config, false).err().unwrap().to_string();
    assert_eq!(
        refused(json!({ "search": "brave" })),
        "web provider brave needs a key: set BRAVE_API_KEY or web.providers.brave.api_key"
    );
    assert_eq!(refused(json!({ "search": "searxng" })), "web provider searxng needs an address: set its 'url'");
    let odd = json!({ "search": "searxng", "providers": { "searxng": { "url": "ftp://x" } } });
    assert_eq!(refused(odd), "web provider searxng needs an address: 'url' must begin with http:// or https://");
}

#[tokio::test]
async fn pages_become_markdown() {
    let pages = HashMap::from([
        ("/page", html("<title>Hello</title><h1>Head</h1><p>Some <a href='/x'>link</a>.</p>")),
        ("/latin", page("200 OK", "content-type: text/html; charset=iso-8859-1\r\n", b"<p>caf\xe9</p>")),
        ("/json", page("200 OK", "content-type: application/json\r\n", b"{\"a\": 1}")),
        ("/pdf", page("200 OK", "content-type: application/pdf\r\n", b"%PDF")),
        ("/long", page("200 OK", "content-type: text/plain\r\n", "é".repeat(20_000).as_bytes())),
        ("/moved", redirect("/page")),
    ]);
    let (server, _) = serve(pages).await;
    let url = |path: &str| format!("http://{server}{path}");
    let urls: Vec<String> =
        ["/page", "/latin", "/json", "/pdf", "/missing", "/never", "/read"].iter().map(|path| url(path)).collect();
    let answer = extract(&urls, true).await;
    let result = |at: usize, title: &str, content: &str, error: Value| {
        assert_eq!(
            answer["results"][at],
            json!({ "url": urls[at], "title": title, "content": content, "error": error }),
            "{at}"
        );
    };
    assert_eq!(answer["results"].as_array().unwrap().len(), 5);
    assert_eq!(answer["omitted"], json!([urls[5], urls[6]]));
    let content = answer["results"][0]["content"].as_str().unwrap();
    assert!(content.starts_with("## Head\n\nSome [link]("), "{content}");
    assert_eq!(answer["results"][0]["title"], "Hello");
    result(1, "", "café", Value::Null);
    result(2, "", "{\"a\": 1}", Value::Null);
    result(3, "", "", json!("content of type application/pdf can't be read as text"));
    result(4, "", "", json!("the server answered 404 Not Found"));
    let answer = extract(&[url("/long"), url("/moved")], true).await;
    let cut = format!("{}\n\n... [truncated: 15,000 of 20,000 characters shown] ...", "é".repeat(15_000));
    assert_eq!(answer["results"][0]["content"], cut);
    assert_eq!(answer["results"][1]["title"], "Hello");
}

/// If this fails, a script can read what is served to this machine only: cloud metadata, databases, other tools.
#[tokio::test]
async fn private_addresses_are_refused_wherever_they_come_from() {
    let (server, seen) = serve(HashMap::from([("/", html("secret"))])).await;
    let port = server.port();
    let urls = [
        format!("http://127.0.0.1:{port}/"),
        format!("http://localhost:{port}/"),
        format!("http://2130706433:{port}/"),
        format!("http://0177.0.0.1:{port}/"),
        format!("http://[::ffff:127.0.0.1]:{port}/"),
    ];
    for url in urls {
        let answer = extract(std::slice::from_ref(&url), false).await;
        assert_eq!(answer["results"][0]["error"], "Access denied: the address is private, local or reserved", "{url}");
        assert_eq!(answer["results"][0]["content"], "");
    }
    assert!(seen.lock().unwrap().is_empty(), "nothing was sent");
    let to = |to: &str| redirect(to);
    let pages = HashMap::from([
        ("/metadata", to("http://169.254.169.254/latest/meta-data/")),
        ("/six", to("http://[::1]/")),
        ("/file", to("file:///etc/passwd")),
        ("/user", to("http://a:b@example.com/")),
        ("/loop", to("/loop")),
    ]);
    let (server, _) = serve(pages).await;
    let private = "Access denied: the address is private, local or reserved";
    for (path, text) in [
        ("/metadata", private),
        ("/six", private),
        ("/user", "an address must not hold a user name or password"),
        ("/loop", "more than 5 redirects"),
    ] {
        let answer = extract(&[format!("http://{server}{path}")], true).await;
        assert_eq!(answer["results"][0]["error"], text, "{path}");
    }
    let file = extract(&[format!("http://{server}/file")], true).await;
    assert_ne!(file["results"][0]["error"], Value::Null);
    let forms = [
        ("file:///etc/passwd", "only http and https addresses can be fetched, not file"),
        ("http://", "not a valid address: empty host"),
    ];
    for (url, text) in forms {
        assert_eq!(extract(&[url.to_owned()], false).await["results"][0]["error"], text);
    }
}

#[tokio::test]
async fn bombs_and_floods_are_bounded() {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    for _ in 0..2_000 {
        gzip.write_all(&vec![b'a'; 1 << 20]).unwrap();
    }
    let bomb = page("200 OK", "content-type: text/plain\r\ncontent-encoding: gzip\r\n", &gzip.finish().unwrap());
    let (server, _) = serve(HashMap::from([("/bomb", bomb)])).await;
    let began = Instant::now();
    let answer = extract(&[format!("http://{server}/bomb")], true).await;
    let content = answer["results"][0]["content"].as_str().unwrap();
    assert!(
        content.ends_with("[truncated: 15,000 of 5,242,880 characters shown] ..."),
        "{}",
        &content[content.len() - 100..]
    );
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
}

#[tokio::test]
async fn searxng_and_the_others_answer_in_one_shape() {
    let found = |fields: Value| page("200 OK", "content-type: application/json\r\n", fields.to_string().as_bytes());
    let (title, url) = ("T", "https://example.com/");
    let pages = HashMap::from([
        (
            "/search",
            found(
                json!({ "results": [{ "title": title, "url": url, "content": "D", "text": "D" }, { "title": "U", "url": url }] }),
            ),
        ),
        (
            "/res/v1/web/search",
            found(json!({ "web": { "results": [{ "title": title, "url": url, "description": "D" }] } })),
        ),
        ("/v2/search", found(json!({ "data": { "web": [{ "title": title, "url": url, "description": "D" }] } }))),
        ("/extract", found(json!({ "results": [{ "url": url, "title": "P", "raw_content": "# C" }] }))),
        ("/contents", found(json!({ "results": [{ "url": url, "title": "P", "text": "# C" }] }))),
        ("/v2/scrape", found(json!({ "data": { "markdown": "# C", "metadata": { "title": "P" } } }))),
    ]);
    let (server, seen) = serve(pages).await;
    for name in ["searxng", "brave", "tavily", "exa", "firecrawl"] {
        let provider = json!({ name: { "url": format!("http://{server}"), "api_key_env": "TEST_KEY" } });
        let tools = tools(json!({ "search": name, "providers": provider }), false).unwrap();
        let answer = call(&tools, "web_search", json!({ "query": "a b&c", "limit": 1 }), &context(None)).await;
        let expected = json!({ "success": true, "data": { "web": [{ "title": title, "url": url, "description": "D", "position": 1 }] } });
        assert_eq!(answer, expected, "{name}");
        let request = seen.lock().unwrap().pop().unwrap();
        assert!(
            request.contains("key-from-environment") && (request.contains("a+b%26c") || request.contains("a b&c")),
            "{name}: {request}"
        );
    }
    for name in ["tavily", "exa", "firecrawl"] {
        let provider = json!({ name: { "url": format!("http://{server}"), "api_key": "k" } });
        let tools = tools(json!({ "extract": name, "providers": provider }), false).unwrap();
        let answer = call(&tools, "web_extract", json!({ "urls": [url] }), &context(None)).await;
        assert_eq!(
            answer,
            json!({ "results": [{ "url": url, "title": "P", "content": "# C", "error": null }] }),
            "{name}"
        );
        let private = call(&tools, "web_extract", json!({ "urls": ["http://10.0.0.1/"] }), &context(None)).await;
        assert_eq!(
            private["results"][0]["error"], "Access denied: the address is private, local or reserved",
            "{name}"
        );
    }
}

#[tokio::test]
async fn failures_say_what_happened_and_no_key() {
    let pages = HashMap::from([
        ("/denied/search", page("401 Unauthorized", "", b"key-from-environment is wrong")),
        ("/odd/search", page("200 OK", "", b"<html>")),
    ]);
    let (server, _) = serve(pages).await;
    for (path, text) in [
        ("denied", "Search failed: searxng: the server answered 401 Unauthorized (is its key right?)"),
        ("odd", "Search failed: searxng: the answer is not what was expected"),
        ("gone", "Search failed: searxng: the server answered 404 Not Found"),
    ] {
        let provider = json!({ "searxng": { "url": format!("http://{server}/{path}/"), "api_key_env": "TEST_KEY" } });
        let tools = tools(json!({ "search": "searxng", "providers": provider }), false).unwrap();
        let answer = call(&tools, "web_search", json!({ "query": "x" }), &context(None)).await;
        assert_eq!(answer, json!({ "success": false, "error": text }));
    }
}
