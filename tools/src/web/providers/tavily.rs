//! Tavily: <https://docs.tavily.com/documentation/api-reference>.

use async_trait::async_trait;
use reqwest::Client;
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use serde_json::json;

use super::{Hit, Page, Provider, exchange};

/// Tavily with a key.
pub(crate) struct Tavily {
    client: Client,
    url: String,
    key: SecretString,
}

#[derive(Deserialize)]
struct Answer {
    #[serde(default)]
    results: Vec<Found>,
    #[serde(default)]
    failed_results: Vec<Failed>,
}

#[derive(Deserialize)]
struct Found {
    url: String,
    #[serde(default)]
    title: Option<String>,
    #[serde(default)]
    content: Option<String>,
    #[serde(default)]
    raw_content: Option<String>,
}

#[derive(Deserialize)]
struct Failed {
    #[serde(default)]
    error: Option<String>,
}

impl Tavily {
    pub(crate) fn new(client: Client, address: &str, key: SecretString) -> Self {
        Self { client, url: address.to_owned(), key }
    }

    async fn post(&self, path: &str, body: &serde_json::Value) -> Result<Answer, String> {
        let request = self.client.post(format!("{}/{path}", self.url)).bearer_auth(self.key.expose_secret()).json(body);
        exchange("tavily", request).await
    }
}

#[async_trait]
impl Provider for Tavily {
    async fn search(&self, query: &str, limit: usize) -> Result<Vec<Hit>, String> {
        let answer = self.post("search", &json!({ "query": query, "max_results": limit.min(20) })).await?;
        let hit = |found: Found| Hit {
            title: found.title.unwrap_or_default(),
            url: found.url,
            description: found.content.unwrap_or_default(),
        };
        Ok(answer.results.into_iter().take(limit).map(hit).collect())
    }

    async fn extract(&self, url: &str) -> Result<Page, String> {
        let answer = self.post("extract", &json!({ "urls": [url], "format": "markdown" })).await?;
        match (answer.results.into_iter().next(), answer.failed_results.into_iter().next()) {
            (Some(found), _) => Ok(Page {
                title: found.title.unwrap_or_default(),
                content: found.raw_content.or(found.content).unwrap_or_default(),
            }),
            (None, Some(Failed { error: Some(error) })) => Err(format!("tavily: {error}")),
            (None, _) => Err("tavily: the page could not be extracted".into()),
        }
    }
}
