//! Exa: <https://docs.exa.ai/reference/getting-started>.

use async_trait::async_trait;
use reqwest::Client;
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use serde_json::json;

use super::{Hit, Page, Provider, exchange};

/// Characters of a result's text that stand for its description.
const DESCRIPTION: u32 = 500;

/// Exa with a key.
pub(crate) struct Exa {
    client: Client,
    url: String,
    key: SecretString,
}

#[derive(Deserialize)]
struct Answer {
    #[serde(default)]
    results: Vec<Found>,
}

#[derive(Deserialize)]
struct Found {
    url: String,
    #[serde(default)]
    title: Option<String>,
    #[serde(default)]
    text: Option<String>,
}

impl Exa {
    pub(crate) fn new(client: Client, address: &str, key: SecretString) -> Self {
        Self { client, url: address.to_owned(), key }
    }

    async fn post(&self, path: &str, body: &serde_json::Value) -> Result<Answer, String> {
        let request = self.client.post(format!("{}/{path}", self.url)).header("x-api-key", self.key.expose_secret());
        exchange("exa", request.json(body)).await
    }
}

#[async_trait]
impl Provider for Exa {
    async fn search(&self, query: &str, limit: usize) -> Result<Vec<Hit>, String> {
        let contents = json!({ "text": { "maxCharacters": DESCRIPTION } });
        let body = json!({ "query": query, "numResults": limit.min(100), "contents": contents });
        let answer = self.post("search", &body).await?;
        let hit = |found: Found| Hit {
            title: found.title.unwrap_or_default(),
            url: found.url,
            description: found.text.unwrap_or_default(),
        };
        Ok(answer.results.into_iter().take(limit).map(hit).collect())
    }

    async fn extract(&self, url: &str) -> Result<Page, String> {
        let answer = self.post("contents", &json!({ "urls": [url], "text": true })).await?;
        let found = answer.results.into_iter().next().ok_or("exa: the page could not be extracted")?;
        Ok(Page { title: found.title.unwrap_or_default(), content: found.text.unwrap_or_default() })
    }
}
