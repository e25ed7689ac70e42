//! Firecrawl, hosted or one's own: <https://docs.firecrawl.dev/api-reference/v2-introduction>.

use async_trait::async_trait;
use reqwest::Client;
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use serde_json::json;

use super::{Hit, Page, Provider, exchange};

/// A Firecrawl instance.
pub(crate) struct Firecrawl {
    client: Client,
    url: String,
    key: Option<SecretString>,
}

#[derive(Deserialize)]
struct Answer<D> {
    data: D,
}

/// Version 1 answers with a list, version 2 with lists by source.
#[derive(Deserialize)]
#[serde(untagged)]
enum Results {
    List(Vec<Found>),
    BySource {
        #[serde(default)]
        web: Vec<Found>,
    },
}

#[derive(Deserialize)]
struct Found {
    url: String,
    #[serde(default)]
    title: Option<String>,
    #[serde(default)]
    description: Option<String>,
}

#[derive(Deserialize)]
struct Scraped {
    #[serde(default)]
    markdown: Option<String>,
    #[serde(default)]
    metadata: Metadata,
}

#[derive(Deserialize, Default)]
struct Metadata {
    #[serde(default)]
    title: Option<String>,
    #[serde(default)]
    error: Option<String>,
}

impl Firecrawl {
    pub(crate) fn new(client: Client, address: &str, key: Option<SecretString>) -> Self {
        Self { client, url: address.to_owned(), key }
    }

    fn post(&self, path: &str, body: &serde_json::Value) -> reqwest::RequestBuilder {
        let request = self.client.post(format!("{}/v2/{path}", self.url)).json(body);
        match &self.key {
            Some(key) => request.bearer_auth(key.expose_secret()),
            None => request,
        }
    }
}

#[async_trait]
impl Provider for Firecrawl {
    async fn search(&self, query: &str, limit: usize) -> Result<Vec<Hit>, String> {
        let request = self.post("search", &json!({ "query": query, "limit": limit.min(100) }));
        let answer: Answer<Results> = exchange("firecrawl", request).await?;
        let found = match answer.data {
            Results::List(found) | Results::BySource { web: found } => found,
        };
        let hit = |found: Found| Hit {
            title: found.title.unwrap_or_default(),
            url: found.url,
            description: found.description.unwrap_or_default(),
        };
        Ok(found.into_iter().take(limit).map(hit).collect())
    }

    async fn extract(&self, url: &str) -> Result<Page, String> {
        let request = self.post("scrape", &json!({ "url": url, "formats": ["markdown"] }));
        let answer: Answer<Scraped> = exchange("firecrawl", request).await?;
        let Scraped { markdown, metadata } = answer.data;
        match (markdown, metadata.error) {
            (Some(content), _) => Ok(Page { title: metadata.title.unwrap_or_default(), content }),
            (None, Some(error)) => Err(format!("firecrawl: {error}")),
            (None, None) => Err("firecrawl: the page could not be extracted".into()),
        }
    }
}
