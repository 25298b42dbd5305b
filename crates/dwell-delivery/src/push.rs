//! Servers that take profiles: Pyroscope's `/ingest` takes pprof, a collector's `/v1development/profiles` OpenTelemetry's
//! own messages.
use crate::client::Client;
use crate::error::DeliveryError;
use crate::parcel::Parcel;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use dwell_report::{otlp, pprof};
use flate2::Compression;
use flate2::write::GzEncoder;
use percent_encoding::percent_decode_str;
use std::io::{self, Write};
use std::str::FromStr;
use std::{env, fmt};
use url::Url;

/// How the path of Pyroscope's address ends.
const INGEST: &str = "/ingest";
/// The same for the profiles service of OpenTelemetry's protocol.
const PROFILES: &str = "/v1development/profiles";

/// A server that takes profiles.
#[derive(Clone)]
pub struct Push {
    /// Without a password.
    url: Url,
    kind: Kind,
    headers: Vec<(String, String)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Pyroscope,
    Otlp,
}

impl FromStr for Push {
    type Err = DeliveryError;

    /// The path says what the server is. A name and a password in the address, or what the environment has, as it is for
    /// other programs: `PYROSCOPE_TENANT_ID`, `PYROSCOPE_BASIC_AUTH_USER` and `…_PASSWORD`; `OTEL_EXPORTER_OTLP_HEADERS`.
    fn from_str(address: &str) -> Result<Self, DeliveryError> {
        let wrong = |address: &str, reason: &str| DeliveryError::Address {
            address: address.to_owned(),
            reason: reason.to_owned(),
        };
        let url = Url::parse(address).ok();
        let url = url.filter(|u| ["http", "https"].contains(&u.scheme()));
        // What cannot be parsed may hold a password anywhere.
        let none = || {
            wrong(
                "--push",
                "a server's address begins with http:// or https://",
            )
        };
        let (url, own) = without_password(url.ok_or_else(none)?);
        let (kind, mut headers) = if url.path().ends_with(INGEST) {
            (Kind::Pyroscope, pyroscope_headers())
        } else if url.path().ends_with(PROFILES) {
            let text = variable("OTEL_EXPORTER_OTLP_HEADERS").unwrap_or_default();
            (Kind::Otlp, parse_headers(&text))
        } else {
            return Err(wrong(
                url.as_str(),
                "its path says what the server is: http://HOST:4040/ingest is Pyroscope's, \
                 http://HOST:4318/v1development/profiles OpenTelemetry's",
            ));
        };
        headers.extend(own);
        Ok(Push { url, kind, headers })
    }
}

/// Name and password in an address become a header.
fn without_password(mut url: Url) -> (Url, Option<(String, String)>) {
    let decoded = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
    let (user, password) = (
        decoded(url.username()),
        decoded(url.password().unwrap_or_default()),
    );
    if user.is_empty() && password.is_empty() {
        return (url, None);
    }
    // An address that cannot have them has none.
    let _ = url.set_password(None);
    let _ = url.set_username("");
    (url, Some(basic(&user, &password)))
}

fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

fn pyroscope_headers() -> Vec<(String, String)> {
    let mut headers = Vec::new();
    if let Some(tenant) = variable("PYROSCOPE_TENANT_ID") {
        headers.push(("X-Scope-OrgID".into(), tenant));
    }
    if let Some(user) = variable("PYROSCOPE_BASIC_AUTH_USER") {
        let password = variable("PYROSCOPE_BASIC_AUTH_PASSWORD").unwrap_or_default();
        headers.push(basic(&user, &password));
    }
    headers
}

fn basic(user: &str, password: &str) -> (String, String) {
    let both = BASE64_STANDARD.encode(format!("{user}:{password}"));
    ("Authorization".into(), format!("Basic {both}"))
}

/// `key=value,key=value`, values as in addresses.
fn parse_headers(text: &str) -> Vec<(String, String)> {
    let decoded = |text: &str| {
        percent_decode_str(text.trim())
            .decode_utf8_lossy()
            .into_owned()
    };
    let pairs = text.split(',').filter_map(|pair| pair.split_once('='));
    pairs
        .map(|(name, value)| (name.trim().to_owned(), decoded(value)))
        .collect()
}

impl fmt::Display for Push {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.url.fmt(f)
    }
}

/// Without what is secret.
impl fmt::Debug for Push {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {self}", self.kind)
    }
}

impl Push {
    /// Sends the profile of a recording.
    pub(crate) fn send(&self, parcel: &mut Parcel, client: &Client) -> Result<(), DeliveryError> {
        let mut headers = self.headers.clone();
        let mut add = |name: &str, value: &str| headers.push((name.to_owned(), value.to_owned()));
        let mut body = Vec::new();
        let url = match self.kind {
            Kind::Pyroscope => {
                add("Content-Type", "application/octet-stream");
                in_memory(pprof::write_series(&parcel.analysis()?, &mut body));
                self.ingest(parcel)
            }
            Kind::Otlp => {
                add("Content-Type", "application/x-protobuf");
                add("Content-Encoding", "gzip");
                let service = parcel.service.clone();
                let service = service.is_all.then_some(service.name);
                let mut gzip = GzEncoder::new(&mut body, Compression::new(4));
                in_memory(otlp::write_of(
                    &parcel.analysis()?,
                    service.as_deref(),
                    &mut gzip,
                ));
                in_memory(gzip.flush().and(gzip.try_finish()));
                drop(gzip);
                self.url.clone()
            }
        };
        client.post(url.as_str(), &headers, &body, self)
    }

    /// The address with what it is that comes.
    fn ingest(&self, parcel: &Parcel) -> Url {
        let (origin, meta) = (&parcel.origin, parcel.recording.meta());
        let name = format!("{}{{host={}}}", label(&origin.service), label(&origin.host));
        let seconds = |instant_ns| (meta.clock.unix_ns(instant_ns) / 1_000_000_000).to_string();
        let mut url = self.url.clone();
        url.query_pairs_mut()
            .append_pair("name", &name)
            .append_pair("from", &seconds(meta.start_ns))
            .append_pair("until", &seconds(meta.end_ns))
            .append_pair("format", "pprof")
            .append_pair("spyName", "dwell");
        url
    }
}

/// Memory takes whatever is written.
fn in_memory(written: io::Result<()>) {
    if let Err(error) = written {
        unreachable!("writing to memory failed: {error}");
    }
}

/// A name in Pyroscope's `name{label=value}`, which knows no way to write these letters.
fn label(text: &str) -> String {
    text.replace(['{', '}', ',', '='], "_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_says_what_a_server_is() {
        let push = |address: &str| address.parse::<Push>();
        let pyroscope = push("https://me:s%26cret@p.example.org/x/ingest").expect("Pyroscope");
        assert_eq!(pyroscope.kind, Kind::Pyroscope);
        assert_eq!(pyroscope.to_string(), "https://p.example.org/x/ingest");
        assert!(!format!("{pyroscope:?}").contains("cret"));
        assert!(pyroscope.headers.contains(&basic("me", "s&cret")));
        let otlp = push("http://127.0.0.1:4318/v1development/profiles").expect("a collector");
        assert_eq!(otlp.kind, Kind::Otlp);
        for address in ["http://host:4040", "host:4040/ingest", "ftp://host/ingest"] {
            let error = push(address).expect_err("no server").to_string();
            assert!(error.contains("http://"), "{error}");
        }
        let error = push("http://me:secret@host/")
            .expect_err("no path")
            .to_string();
        assert!(!error.contains("secret"), "{error}");
    }

    #[test]
    fn headers_are_read_as_opentelemetry_writes_them() {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(
            parse_headers("api-key=a%20b, x-other = c=d,nothing"),
            [pair("api-key", "a b"), pair("x-other", "c=d")]
        );
        assert_eq!(parse_headers(""), []);
    }
}
