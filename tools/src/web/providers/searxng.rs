//! SearXNG: a search engine that one runs oneself. Its JSON format has to be switched on in its settings.

use async_trait::async_trait;
use reqwest::Client;
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;

use super::{Hit, Provider, exchange};

/// A SearXNG instance.
pub(crate) struct Searxng {
    client: Client,
    url: String,
    key: Option<SecretString>,
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
    title: String,
    #[serde(default)]
    content: Option<String>,
}

impl Searxng {
    pub(crate) fn new(client: Client, address: &str, key: Option<SecretString>) -> Self {
        Self { client, url: format!("{address}/search"), key }
    }
}

#[async_trait]
impl Provider for Searxng {
    async fn search(&self, query: &str, limit: usize) -> Result<Vec<Hit>, String> {
        let mut request = self.client.get(&self.url);
        if let Some(key) = &self.key {
            request = request.bearer_auth(key.expose_secret());
        }
        let url = format!("{}?{}", self.url, form(&[("q", query), ("format", "json")]));
        let mut request = request.build().map_err(|_| "searxng: its address is not valid".to_owned())?;
        *request.url_mut() = url.parse().map_err(|_| "searxng: its address is not valid".to_owned())?;
        let request = reqwest::RequestBuilder::from_parts(self.client.clone(), request);
        let answer: Answer = exchange("searxng", request).await?;
        let hit =
            |found: Found| Hit { title: found.title, url: found.url, description: found.content.unwrap_or_default() };
        Ok(answer.results.into_iter().take(limit).map(hit).collect())
    }
}

/// A query string.
pub(super) fn form(pairs: &[(&str, &str)]) -> String {
    url::form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish()
}
