//! `web_extract`.

use std::sync::Arc;

use futures_util::future::join_all;
use gloveport::tool::{Effect, Tool, ToolError, ToolSpec, tool_fn};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::client::parse;
use super::guard::AddressGuard;
use super::providers::{Page, Provider};
use crate::text::{first_chars, grouped};

/// Pages of one call.
const MAX_PAGES: usize = 5;
/// Characters of one page.
const MAX_CHARS: usize = 15_000;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct WebExtract {
    /// Addresses of pages; the first five are read.
    urls: Vec<String>,
}

/// The tool.
pub(crate) fn tool(provider: Arc<dyn Provider>, guard: AddressGuard) -> Arc<dyn Tool> {
    let text = "Reads web pages as Markdown, at most 5 per call and 15000 characters each. Returns {results: [{url, title, content, error}]}.";
    tool_fn(ToolSpec::new::<WebExtract>("web_extract", text).effect(Effect::Network), move |args: WebExtract, _| {
        let (provider, guard) = (Arc::clone(&provider), guard.clone());
        async move { extract(&*provider, &guard, &args.urls).await }
    })
}

async fn extract(provider: &dyn Provider, guard: &AddressGuard, urls: &[String]) -> Result<Value, ToolError> {
    if urls.is_empty() {
        return Err(ToolError::Arguments("argument 'urls': must not be empty".into()));
    }
    let (read, left) = urls.split_at(urls.len().min(MAX_PAGES));
    let pages = join_all(read.iter().map(|url| one(provider, guard, url))).await;
    let results: Vec<Value> = read.iter().zip(pages).map(|(url, page)| render(url, page)).collect();
    let mut answer = Map::new();
    answer.insert("results".into(), results.into());
    if !left.is_empty() {
        answer.insert("omitted".into(), left.into());
    }
    Ok(Value::Object(answer))
}

async fn one(provider: &dyn Provider, guard: &AddressGuard, address: &str) -> Result<Page, String> {
    let url = parse(address)?;
    guard.check(&url)?;
    provider.extract(url.as_str()).await
}

fn render(url: &str, page: Result<Page, String>) -> Value {
    match page {
        Ok(page) => json!({ "url": url, "title": page.title, "content": cut(&page.content), "error": null }),
        Err(problem) => json!({ "url": url, "title": "", "content": "", "error": problem }),
    }
}

fn cut(content: &str) -> String {
    let shown = first_chars(content, MAX_CHARS);
    if shown.len() == content.len() {
        return content.to_owned();
    }
    let total = grouped(content.chars().count() as u64);
    format!("{shown}\n\n... [truncated: {} of {total} characters shown] ...", grouped(MAX_CHARS as u64))
}
