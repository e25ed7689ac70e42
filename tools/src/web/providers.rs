//! Services that search and extract, behind one trait. Each is a file with the shape of its requests and answers.

mod brave;
mod exa;
mod firecrawl;
mod searxng;
mod tavily;

use async_trait::async_trait;
use reqwest::RequestBuilder;
use serde::de::DeserializeOwned;

pub(crate) use brave::Brave;
pub(crate) use exa::Exa;
pub(crate) use firecrawl::Firecrawl;
pub(crate) use searxng::Searxng;
pub(crate) use tavily::Tavily;

use super::client::{body, explain};

/// Bytes of a provider's answer.
const MAX_ANSWER: usize = 16 << 20;

/// One search result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Hit {
    pub(crate) title: String,
    pub(crate) url: String,
    pub(crate) description: String,
}

/// One page as Markdown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Page {
    pub(crate) title: String,
    pub(crate) content: String,
}

/// A service. What it can't do is an error for the script, and not offered by the configuration.
#[async_trait]
pub(crate) trait Provider: Send + Sync {
    /// Up to `limit` results, best first.
    async fn search(&self, query: &str, limit: usize) -> Result<Vec<Hit>, String> {
        let _ = (query, limit);
        Err("this provider does not search".into())
    }

    /// One page. Its address has passed the guard.
    async fn extract(&self, url: &str) -> Result<Page, String> {
        let _ = url;
        Err("this provider does not extract".into())
    }
}

/// Sends a request and reads the JSON of the answer. Errors name the provider and what came back, never what was sent.
async fn exchange<A: DeserializeOwned>(provider: &str, request: RequestBuilder) -> Result<A, String> {
    let answer = request.send().await.map_err(|error| format!("{provider}: {}", explain(&error)))?;
    let status = answer.status();
    if !status.is_success() {
        let hint = match status.as_u16() {
            401 | 403 => " (is its key right?)",
            429 => " (too many requests)",
            _ => "",
        };
        return Err(format!("{provider}: the server answered {status}{hint}"));
    }
    let (bytes, cut) = body(answer, MAX_ANSWER).await.map_err(|problem| format!("{provider}: {problem}"))?;
    if cut {
        return Err(format!("{provider}: the answer is too long"));
    }
    serde_json::from_slice(&bytes).map_err(|_| format!("{provider}: the answer is not what was expected"))
}
