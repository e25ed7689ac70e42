//! The HTTP clients: one for providers that the configuration names, one for pages that scripts name.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use reqwest::{Client, ClientBuilder, Response, redirect};

use super::WebError;
use super::guard::AddressGuard;

/// Time to reach a server.
const CONNECT: Duration = Duration::from_secs(10);
/// Time for a whole exchange.
const TOTAL: Duration = Duration::from_secs(30);
/// Redirects of one page.
const MAX_REDIRECTS: usize = 5;
/// How this program names itself.
const AGENT: &str = concat!("gloveport/", env!("CARGO_PKG_VERSION"));

/// Makes clients.
pub(crate) struct Clients {
    trusted: Client,
    guard: AddressGuard,
}

impl Clients {
    pub(crate) fn new(allowed: Vec<IpAddr>) -> Result<Self, WebError> {
        let trusted = builder()?.redirect(redirect::Policy::none());
        Ok(Self { trusted: build(trusted)?, guard: AddressGuard::new(allowed) })
    }

    /// For providers: no guard, because the configuration names them, and no redirects, because they would take the key elsewhere.
    pub(crate) fn trusted(&self) -> Client {
        self.trusted.clone()
    }

    pub(crate) fn guard(&self) -> AddressGuard {
        self.guard.clone()
    }

    /// For pages: every address that is dialed passes the guard.
    pub(crate) fn guarded(&self) -> Result<GuardedClient, WebError> {
        let guard = self.guard.clone();
        let follow = redirect::Policy::custom(move |attempt| {
            if attempt.previous().len() > MAX_REDIRECTS {
                return attempt.error(format!("more than {MAX_REDIRECTS} redirects"));
            }
            match guard.check(attempt.url()) {
                Ok(()) => attempt.follow(),
                Err(refused) => attempt.error(refused),
            }
        });
        let client = builder()?.redirect(follow).dns_resolver(Arc::new(self.guard.clone())).referer(false);
        Ok(GuardedClient { client: build(client)?, guard: self.guard.clone() })
    }
}

/// A client that fetches from public addresses only.
#[derive(Clone)]
pub(crate) struct GuardedClient {
    client: Client,
    guard: AddressGuard,
}

impl GuardedClient {
    /// Fetches an address that a script named.
    pub(crate) async fn get(&self, address: &str) -> Result<Response, String> {
        let url = parse(address)?;
        self.guard.check(&url)?;
        let answer = self
            .client
            .get(url)
            .header("accept", "text/html,application/xhtml+xml,text/*;q=0.9,application/json;q=0.8,*/*;q=0.1");
        let answer = answer.send().await.map_err(|error| explain(&error))?;
        // The resolver and the redirect policy have seen to this; should one of them ever be passed by, nothing of the answer is used.
        match answer.remote_addr() {
            Some(peer) if !self.guard.may_dial(peer.ip()) => Err(super::guard::PRIVATE.into()),
            _ => Ok(answer),
        }
    }
}

/// Reads an address as a browser does. One without a scheme is taken for https.
pub(crate) fn parse(address: &str) -> Result<url::Url, String> {
    let text = address.trim();
    match url::Url::parse(text) {
        Err(url::ParseError::RelativeUrlWithoutBase) => url::Url::parse(&format!("https://{text}")),
        other => other,
    }
    .map_err(|error| format!("not a valid address: {error}"))
}

/// The body of an answer, decompressed, up to `max` bytes. What is beyond is not read, and not decompressed either.
pub(crate) async fn body(answer: Response, max: usize) -> Result<(Vec<u8>, bool), String> {
    let mut body = Vec::new();
    let mut stream = answer.bytes_stream();
    while let Some(piece) = stream.next().await {
        let piece = piece.map_err(|error| explain(&error))?;
        let room = max - body.len();
        body.extend_from_slice(&piece[..piece.len().min(room)]);
        if piece.len() >= room {
            return Ok((body, true));
        }
    }
    Ok((body, false))
}

/// One sentence of why an exchange failed. Addresses are left out: they may hold what a provider is given.
pub(crate) fn explain(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    let text = if std::ptr::addr_eq(cause, error) { "no answer".to_owned() } else { cause.to_string() };
    match () {
        () if error.is_timeout() => format!("timed out after {}s", TOTAL.as_secs()),
        () if text == super::guard::PRIVATE => text,
        () if error.is_connect() => format!("could not connect: {text}"),
        () if error.is_redirect() => text,
        () if error.is_decode() || error.is_body() => format!("the answer broke off: {text}"),
        () => text,
    }
}

fn build(builder: ClientBuilder) -> Result<Client, WebError> {
    builder.build().map_err(|error| WebError::Client(error.to_string()))
}

fn builder() -> Result<ClientBuilder, WebError> {
    // A proxy would dial for us, and past the guard.
    let builder = Client::builder().user_agent(AGENT).connect_timeout(CONNECT).timeout(TOTAL).no_proxy();
    Ok(builder.tls_backend_preconfigured(tls()?))
}

/// TLS with the certificates of the system, or with Mozilla's where there are none. The cryptography is Rust and assembly: no C compiler is needed.
fn tls() -> Result<rustls::ClientConfig, WebError> {
    // The cryptography panics on a processor without them.
    if !graviola::util::is_cpu_supported() {
        return Err(WebError::Client(
            "TLS needs a processor with AES and carry-less multiplication instructions".into(),
        ));
    }
    let mut roots = rustls::RootCertStore::empty();
    let (added, _) = roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if added == 0 {
        roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    }
    let config = rustls::ClientConfig::builder_with_provider(Arc::new(rustls_graviola::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| WebError::Client(error.to_string()))?;
    let mut config = config.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}
