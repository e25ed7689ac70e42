//! Brave Search: <https://api-dashboard.search.brave.com/app/documentation/web-search/get-started>.

use async_trait::async_trait;
use reqwest::Client;
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;

use super::searxng::form;
use super::{Hit, Provider, exchange};

/// Brave Search with a subscription.
pub(crate) struct Brave {
    client: Client,
    url: String,
    key: SecretString,
}

#[derive(Deserialize)]
struct Answer {
    #[serde(default)]
    web: Results,
}

#[derive(Deserialize, Default)]
struct Results {
    #[serde(default)]
    results: Vec<Found>,
}

#[derive(Deserialize)]
struct Found {
    url: String,
    #[serde(default)]
    title: String,
    #[serde(default)]
    description: Option<String>,
}

impl Brave {
    pub(crate) fn new(client: Client, address: &str, key: SecretString) -> Self {
        Self { client, url: format!("{address}/res/v1/web/search"), key }
    }
}

#[async_trait]
impl Provider for Brave {
    async fn search(&self, query: &str, limit: usize) -> Result<Vec<Hit>, String> {
        let count = limit.min(20).to_string();
        let url = format!("{}?{}", self.url, form(&[("q", query), ("count", &count), ("text_decorations", "false")]));
        let request = self.client.get(url).header("x-subscription-token", self.key.expose_secret());
        let answer: Answer = exchange("brave", request).await?;
        let hit = |found: Found| Hit {
            title: found.title,
            url: found.url,
            description: found.description.unwrap_or_default(),
        };
        Ok(answer.web.results.into_iter().take(limit).map(hit).collect())
    }
}
