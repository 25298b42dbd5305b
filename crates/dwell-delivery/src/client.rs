//! Requests over HTTP.
use crate::error::{DeliveryError, Minds};
use dwell_symbols::certificates;
use std::fmt::Display;
use std::io::Read;
use std::time::Duration;
use ureq::http::{HeaderMap, Response};
use ureq::tls::TlsConfig;
use ureq::{Agent, Body, RequestBuilder};

/// Beyond it nothing is there.
const CONNECT: Duration = Duration::from_secs(10);
/// A server that is slower than that over a part of what is sent, or over its answer, is down.
const SILENCE: Duration = Duration::from_secs(60);
/// Of an answer, what is of interest, bytes.
const ANSWER: u64 = 500;

/// Sends requests. `HTTPS_PROXY` and its like are honoured, and the system's certificates (`SSL_CERT_FILE`).
#[derive(Clone)]
pub struct Client(Agent);

impl Default for Client {
    fn default() -> Self {
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .timeout_connect(Some(CONNECT))
            .timeout_per_write(Some(SILENCE))
            .timeout_recv_response(Some(SILENCE))
            .timeout_recv_body(Some(SILENCE))
            .user_agent(concat!("dwell/", env!("CARGO_PKG_VERSION")))
            .tls_config(TlsConfig::builder().root_certs(certificates()).build())
            .build();
        Client(config.new_agent())
    }
}

impl Client {
    /// Puts an object. A store minds nothing that is in it.
    pub(crate) fn put(
        &self,
        url: &str,
        body: &[u8],
        to: &dyn Display,
    ) -> Result<(), DeliveryError> {
        send(self.0.put(url), body, to, |_| Minds::No)
    }

    /// Posts a message, which a server may mind.
    pub(crate) fn post(
        &self,
        url: &str,
        headers: &[(String, String)],
        body: &[u8],
        to: &dyn Display,
    ) -> Result<(), DeliveryError> {
        let request = headers
            .iter()
            .fold(self.0.post(url), |request, (name, value)| {
                request.header(name, value)
            });
        send(request, body, to, |status| match status {
            400 | 413 | 415 => Minds::Yes,
            422 => Minds::Perhaps,
            _ => Minds::No,
        })
    }
}

fn send(
    request: RequestBuilder<ureq::typestate::WithBody>,
    body: &[u8],
    to: &dyn Display,
    minds: fn(u16) -> Minds,
) -> Result<(), DeliveryError> {
    let response = request
        .send(body)
        .map_err(|error| DeliveryError::Unreachable {
            to: to.to_string(),
            reason: error.to_string(),
        })?;
    answered(response, to, minds)
}

fn answered(
    mut response: Response<Body>,
    to: &dyn Display,
    minds: fn(u16) -> Minds,
) -> Result<(), DeliveryError> {
    let status = response.status();
    if status.is_success() {
        return Ok(());
    }
    let retry_after = retry_after(response.headers());
    let mut text = Vec::new();
    // What was read until it failed is better than nothing.
    let _ = response
        .body_mut()
        .as_reader()
        .take(ANSWER)
        .read_to_end(&mut text);
    let text = String::from_utf8_lossy(&text);
    Err(DeliveryError::Status {
        to: to.to_string(),
        status: status.as_u16(),
        text: message(&text),
        retry_after,
        minds: minds(status.as_u16()),
    })
}

/// What an answer says: S3's is in XML.
fn message(text: &str) -> String {
    let part = |tag: &str| {
        let (_, rest) = text.split_once(&format!("<{tag}>"))?;
        Some(rest.split_once("</")?.0)
    };
    match (part("Code"), part("Message")) {
        (Some(code), Some(message)) => format!("{code}: {message}"),
        _ => text.split_whitespace().collect::<Vec<_>>().join(" "),
    }
}

/// Seconds; the other form, a date, is seldom seen.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get("retry-after")?.to_str().ok()?.parse().ok()?;
    Some(Duration::from_secs(seconds))
}
