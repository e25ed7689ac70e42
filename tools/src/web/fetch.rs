//! The extractor of this program: fetches a page and makes Markdown of its main part.

use async_trait::async_trait;

use super::client::{GuardedClient, body};
use super::page::{self, Kind};
use super::providers::{Page, Provider};

/// Bytes of a page, decompressed.
const MAX_PAGE: usize = 5 << 20;
/// Stack of the thread that reads a page. Readers recurse into what is nested, and [`page`] bounds how deep that is.
const STACK: usize = 64 << 20;

/// Fetches pages itself.
pub(crate) struct Builtin {
    client: GuardedClient,
}

impl Builtin {
    pub(crate) fn new(client: GuardedClient) -> Self {
        Self { client }
    }
}

#[async_trait]
impl Provider for Builtin {
    async fn extract(&self, url: &str) -> Result<Page, String> {
        let answer = self.client.get(url).await?;
        let status = answer.status();
        if !status.is_success() {
            return Err(format!("the server answered {status}"));
        }
        let content_type =
            answer.headers().get("content-type").and_then(|value| value.to_str().ok()).unwrap_or_default();
        let (kind, charset) = page::content_type(content_type)?;
        let address = answer.url().to_string();
        let (bytes, _) = body(answer, MAX_PAGE).await?;
        on_own_stack(move || {
            let text = page::decode(&bytes, charset.as_deref(), kind)?;
            Ok(match kind {
                Kind::Html => page::markdown(&text, &address),
                Kind::Text => Page { title: String::new(), content: text },
            })
        })
        .await
    }
}

/// Pages are hostile: reading one must neither block the runtime nor overflow a stack that others use.
async fn on_own_stack<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, String> + Send + 'static,
) -> Result<T, String> {
    let (send, result) = tokio::sync::oneshot::channel();
    let thread = std::thread::Builder::new().name("gloveport-page".into()).stack_size(STACK);
    thread.spawn(move || _ = send.send(work())).map_err(|_| "the page could not be read".to_owned())?;
    result.await.unwrap_or_else(|_| Err("the page could not be read".into()))
}
