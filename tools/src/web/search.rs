//! `web_search`.

use std::sync::Arc;

use gloveport::tool::{Effect, Tool, ToolError, ToolSpec, tool_fn};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::providers::Provider;

/// Results of one search.
const MAX_RESULTS: u64 = 100;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct WebSearch {
    /// What to search for.
    query: String,
    /// Most results to return.
    #[serde(default = "default_limit")]
    limit: u64,
}

fn default_limit() -> u64 {
    5
}

/// The tool.
pub(crate) fn tool(provider: Arc<dyn Provider>) -> Arc<dyn Tool> {
    let text = "Searches the web. Returns {success, data: {web: [{title, url, description, position}]}}. Read a result with web_extract.";
    tool_fn(ToolSpec::new::<WebSearch>("web_search", text).effect(Effect::Network), move |args: WebSearch, _| {
        let provider = Arc::clone(&provider);
        async move { search(&*provider, args).await }
    })
}

async fn search(provider: &dyn Provider, args: WebSearch) -> Result<Value, ToolError> {
    let query = args.query.trim();
    if query.is_empty() {
        return Err(ToolError::Arguments("argument 'query': must not be empty".into()));
    }
    let limit = usize::try_from(args.limit.clamp(1, MAX_RESULTS)).unwrap_or(1);
    Ok(match provider.search(query, limit).await {
        Ok(hits) => {
            let web: Vec<Value> = hits
                .into_iter()
                .enumerate()
                .map(|(at, hit)| json!({ "title": hit.title, "url": hit.url, "description": hit.description, "position": at + 1 }))
                .collect();
            json!({ "success": true, "data": { "web": web } })
        }
        Err(problem) => json!({ "success": false, "error": format!("Search failed: {problem}") }),
    })
}
