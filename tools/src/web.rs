//! `web_search` and `web_extract`: providers behind one trait, and a fetcher of our own for pages.
//!
//! Two kinds of addresses are told apart. A provider's address comes from the configuration and is trusted. A page's address comes from a script,
//! and must not lead to this machine or its network: it is checked before dialing, at each redirect, and on what its name resolves to (`guard`).
//!
//! Absent on purpose: cookies, proxies from the environment, scripts of pages. Keys are sent to their provider and appear nowhere else.

mod client;
mod extract;
mod fetch;
mod guard;
mod page;
mod providers;
mod search;

use std::net::IpAddr;
use std::sync::Arc;

use gloveport::config::{ExtractProvider, ProviderConfig, SearchProvider, WebConfig};
use gloveport::tool::Tool;
use secrecy::SecretString;

use client::Clients;
use providers::Provider;

/// Why the web tools can't be offered as configured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WebError {
    /// A provider needs a key and has none.
    #[error("web provider {provider} needs a key: set {variable} or web.providers.{provider}.api_key")]
    NoKey {
        /// The provider.
        provider: &'static str,
        /// The variable that was looked at.
        variable: String,
    },
    /// A provider needs an address, or has one that is none.
    #[error("web provider {provider} needs an address: {problem}")]
    Address {
        /// The provider.
        provider: &'static str,
        /// What is wrong.
        problem: String,
    },
    /// The HTTP client can't be made.
    #[error("the web client can't be made: {0}")]
    Client(String),
}

/// Reads a variable of the environment.
type Variable<'a> = Box<dyn Fn(&str) -> Option<String> + 'a>;

/// Builds the web tools. Without providers in the configuration there are none.
pub struct WebTools<'a> {
    config: &'a WebConfig,
    variable: Variable<'a>,
    allowed: Vec<IpAddr>,
}

impl<'a> WebTools<'a> {
    /// Tools for this configuration. `variable` reads the environment, for the keys of providers.
    pub fn new(config: &'a WebConfig, variable: impl Fn(&str) -> Option<String> + 'a) -> Self {
        Self { config, variable: Box::new(variable), allowed: Vec::new() }
    }

    /// Lets pages be fetched from addresses that are refused otherwise. For tests with a server on loopback, and for nothing else.
    #[doc(hidden)]
    #[must_use]
    pub fn allow_for_tests(mut self, address: IpAddr) -> Self {
        self.allowed.push(address);
        self
    }

    /// The tools that the configuration offers: `web_search`, `web_extract`, both or none.
    ///
    /// # Errors
    /// See [`WebError`].
    pub fn build(&self) -> Result<Vec<Arc<dyn Tool>>, WebError> {
        let mut tools = Vec::new();
        if self.config.search == SearchProvider::None && self.config.extract == ExtractProvider::None {
            return Ok(tools);
        }
        let clients = Clients::new(self.allowed.clone())?;
        if let Some(provider) = self.search_provider(&clients)? {
            tools.push(search::tool(provider));
        }
        if let Some(provider) = self.extract_provider(&clients)? {
            tools.push(extract::tool(provider, clients.guard()));
        }
        Ok(tools)
    }

    fn search_provider(&self, clients: &Clients) -> Result<Option<Arc<dyn Provider>>, WebError> {
        let (client, of) = (clients.trusted(), &self.config.providers);
        Ok(Some(match self.config.search {
            SearchProvider::None => return Ok(None),
            SearchProvider::Searxng => {
                let key = self.key(&of.searxng, "SEARXNG_API_KEY");
                Arc::new(providers::Searxng::new(client, &self.address("searxng", &of.searxng, None)?, key))
            }
            SearchProvider::Brave => {
                let address = self.address("brave", &of.brave, Some("https://api.search.brave.com"))?;
                Arc::new(providers::Brave::new(client, &address, self.need_key("brave", &of.brave, "BRAVE_API_KEY")?))
            }
            SearchProvider::Tavily => self.tavily(clients)?,
            SearchProvider::Exa => self.exa(clients)?,
            SearchProvider::Firecrawl => self.firecrawl(clients)?,
        }))
    }

    fn extract_provider(&self, clients: &Clients) -> Result<Option<Arc<dyn Provider>>, WebError> {
        Ok(Some(match self.config.extract {
            ExtractProvider::None => return Ok(None),
            ExtractProvider::Builtin => Arc::new(fetch::Builtin::new(clients.guarded()?)),
            ExtractProvider::Tavily => self.tavily(clients)?,
            ExtractProvider::Exa => self.exa(clients)?,
            ExtractProvider::Firecrawl => self.firecrawl(clients)?,
        }))
    }

    fn tavily(&self, clients: &Clients) -> Result<Arc<dyn Provider>, WebError> {
        let config = &self.config.providers.tavily;
        let address = self.address("tavily", config, Some("https://api.tavily.com"))?;
        let key = self.need_key("tavily", config, "TAVILY_API_KEY")?;
        Ok(Arc::new(providers::Tavily::new(clients.trusted(), &address, key)))
    }

    fn exa(&self, clients: &Clients) -> Result<Arc<dyn Provider>, WebError> {
        let config = &self.config.providers.exa;
        let address = self.address("exa", config, Some("https://api.exa.ai"))?;
        let key = self.need_key("exa", config, "EXA_API_KEY")?;
        Ok(Arc::new(providers::Exa::new(clients.trusted(), &address, key)))
    }

    fn firecrawl(&self, clients: &Clients) -> Result<Arc<dyn Provider>, WebError> {
        let config = &self.config.providers.firecrawl;
        let address = self.address("firecrawl", config, Some("https://api.firecrawl.dev"))?;
        // A self-hosted instance has no key.
        let key = match &config.url {
            Some(_) => self.key(config, "FIRECRAWL_API_KEY"),
            None => Some(self.need_key("firecrawl", config, "FIRECRAWL_API_KEY")?),
        };
        Ok(Arc::new(providers::Firecrawl::new(clients.trusted(), &address, key)))
    }

    fn address(
        &self,
        provider: &'static str,
        config: &ProviderConfig,
        public: Option<&str>,
    ) -> Result<String, WebError> {
        let wrong = |problem: &str| WebError::Address { provider, problem: problem.to_owned() };
        let text = config.url.as_deref().or(public).ok_or_else(|| wrong("set its 'url'"))?;
        let url = url::Url::parse(text).map_err(|error| wrong(&format!("'url' is not valid: {error}")))?;
        if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
            return Err(wrong("'url' must begin with http:// or https://"));
        }
        Ok(text.trim_end_matches('/').to_owned())
    }

    fn key(&self, config: &ProviderConfig, variable: &str) -> Option<SecretString> {
        if let Some(key) = &config.api_key {
            return Some(key.to_secret_string());
        }
        let variable = config.api_key_env.as_deref().unwrap_or(variable);
        (self.variable)(variable).filter(|key| !key.trim().is_empty()).map(|key| key.trim().to_owned().into())
    }

    fn need_key(
        &self,
        provider: &'static str,
        config: &ProviderConfig,
        variable: &str,
    ) -> Result<SecretString, WebError> {
        let named = config.api_key_env.as_deref().unwrap_or(variable).to_owned();
        self.key(config, variable).ok_or(WebError::NoKey { provider, variable: named })
    }
}
