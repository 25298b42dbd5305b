//! Stores of Parquet files: a folder, or a bucket of S3 or of what speaks its language.
use crate::client::Client;
use crate::error::DeliveryError;
use crate::parcel::Parcel;
use dwell_recording::rows::ProfileRow;
use dwell_recording::{Table, joined};
use dwell_report::profile_rows;
use rusty_s3::{Bucket, Credentials, S3Action, UrlStyle};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;
use std::{env, fmt, fs};
use url::Url;

/// How long a signed request is good for.
const SIGNED: Duration = Duration::from_secs(600);

/// A store.
#[derive(Clone, Debug)]
pub enum Store {
    /// `file:///srv/profiles`.
    Folder(PathBuf),
    /// `s3://bucket/prefix`.
    S3(Box<S3>),
}

/// A place in a bucket.
#[derive(Clone)]
pub struct S3 {
    bucket: Bucket,
    credentials: Credentials,
    /// Begins keys; empty, or it ends with `/`.
    prefix: String,
}

impl FromStr for Store {
    type Err = DeliveryError;

    /// `file://` with an absolute path, or `s3://BUCKET/PREFIX` with what the environment says of it: `AWS_ACCESS_KEY_ID`,
    /// `AWS_SECRET_ACCESS_KEY`, `AWS_SESSION_TOKEN`, `AWS_REGION` and, for others than Amazon, `AWS_ENDPOINT_URL`.
    fn from_str(address: &str) -> Result<Self, DeliveryError> {
        let wrong = |reason: String| DeliveryError::Address {
            address: address.to_owned(),
            reason,
        };
        let url = Url::parse(address)
            .map_err(|_| wrong("a store is file:///FOLDER or s3://BUCKET/PREFIX".into()))?;
        match url.scheme() {
            "file" => {
                let path = url.to_file_path();
                path.map(Store::Folder).map_err(|()| {
                    wrong("after file:// comes an absolute path, as in file:///srv/profiles".into())
                })
            }
            "s3" => S3::of(&url).map(Box::new).map(Store::S3).map_err(wrong),
            other => Err(wrong(format!(
                "{other}:// is no store: there are file:///FOLDER and s3://BUCKET/PREFIX"
            ))),
        }
    }
}

impl fmt::Display for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Store::Folder(path) => write!(f, "file://{}", path.display()),
            Store::S3(s3) => write!(f, "s3://{}/{}", s3.bucket.name(), s3.prefix),
        }
    }
}

/// Without what is secret.
impl fmt::Debug for S3 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.bucket.base_url(), self.prefix)
    }
}

impl Store {
    /// Keeps all tables of a recording.
    pub(crate) fn keep(&self, parcel: &mut Parcel, client: &Client) -> Result<(), DeliveryError> {
        let profile = profile_rows(&parcel.analysis()?);
        let origin = &parcel.origin;
        let mut put = |table: &str, bytes: &[u8]| {
            let key = origin.key(table);
            match self {
                Store::Folder(folder) => write(&folder.join(key), bytes),
                Store::S3(s3) => client.put(&s3.signed(&key), bytes, self),
            }
        };
        let name = origin.recording();
        put(ProfileRow::NAME, &joined(&name, &profile)?)?;
        parcel.recording.each_joined(&name, &mut put)
    }
}

/// Writes a file that is there whole or not at all.
fn write(path: &Path, bytes: &[u8]) -> Result<(), DeliveryError> {
    let failed = |source| DeliveryError::Write {
        path: path.to_owned(),
        source,
    };
    // Not `*.parquet`: no query reads it.
    let unfinished = path.with_extension("unfinished");
    path.parent()
        .map_or(Ok(()), fs::create_dir_all)
        .map_err(failed)?;
    dwell_recording::write_whole(&unfinished, path, bytes).map_err(failed)
}

impl S3 {
    fn of(url: &Url) -> Result<Self, String> {
        let name = url.host_str().filter(|name| !name.is_empty());
        let name =
            name.ok_or("after s3:// comes the name of a bucket, as in s3://profiles/prod")?;
        let value = |names: &[&str]| {
            let mut values = names.iter().filter_map(|name| env::var(name).ok());
            values.find(|value| !value.is_empty())
        };
        let region = value(&["AWS_REGION", "AWS_DEFAULT_REGION"]);
        let region = region.unwrap_or_else(|| "us-east-1".into());
        let endpoint = value(&["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"]);
        // Whose buckets have no host of their own, but Amazon's.
        let style = match endpoint {
            Some(_) => UrlStyle::Path,
            None => UrlStyle::VirtualHost,
        };
        let endpoint = endpoint.unwrap_or_else(|| format!("https://s3.{region}.amazonaws.com"));
        let endpoint = Url::parse(&endpoint)
            .map_err(|why| format!("AWS_ENDPOINT_URL is {endpoint:?}: {why}"))?;
        let bucket = Bucket::new(endpoint, style, name.to_owned(), region);
        let credentials = Credentials::from_env().filter(|c| !c.key().is_empty());
        let prefix = url.path().trim_matches('/');
        Ok(S3 {
            bucket: bucket.map_err(|why| format!("its address cannot be made: {why}"))?,
            credentials: credentials.ok_or(
                "the key to it is missing: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, and for others than Amazon AWS_ENDPOINT_URL",
            )?,
            prefix: match prefix {
                "" => String::new(),
                prefix => format!("{prefix}/"),
            },
        })
    }

    fn signed(&self, key: &str) -> String {
        let key = format!("{}{key}", self.prefix);
        let put = self.bucket.put_object(Some(&self.credentials), &key);
        put.sign(SIGNED).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_stores_are_checked_before_anything_is_recorded() {
        let folder: Store = "file:///srv/profiles".parse().expect("a folder");
        assert!(matches!(&folder, Store::Folder(path) if path == Path::new("/srv/profiles")));
        assert_eq!(folder.to_string(), "file:///srv/profiles");
        for (address, wanted) in [
            ("/srv/profiles", "file:///FOLDER"),
            ("gs://bucket", "gs:// is no store"),
            ("file://srv/profiles", "an absolute path"),
            ("s3://", "the name of a bucket"),
        ] {
            let error = address.parse::<Store>().expect_err("no store").to_string();
            assert!(error.contains(wanted), "{error}");
        }
    }
}
