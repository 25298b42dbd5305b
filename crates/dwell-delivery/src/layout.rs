//! What lies where in a store.
//!
//! `TABLE/service=S/host=H/date=2026-11-23/hour=20/20261123T205501.123456789Z.parquet`: a folder per table, and
//! below it partitions as Hive names them, of which DuckDB, ClickHouse, Spark and Trino leave out what a query does not
//! ask for. Date and hour are those of the window's start, in UTC. The file bears the recording's name, and every table has
//! it as a column. `recordings` is written last: a recording that is in
//! there is whole.
use dwell_recording::Meta;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// What stands in a partition's value as it is; Hive writes the rest as `%XX`.
const KEPT: AsciiSet = NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.');

/// Where a recording comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// What was recorded, by the name that its users know.
    pub service: String,
    /// The machine's host name.
    pub host: String,
    /// Start of the window, ns since 1970.
    pub start_unix_ns: u64,
}

impl Origin {
    /// Of a recording.
    pub fn of(meta: &Meta, service: &str) -> Self {
        Origin {
            service: service.to_owned(),
            host: meta.machine.host.clone(),
            start_unix_ns: meta.clock.unix_ns(meta.start_ns),
        }
    }

    /// The recording's name, of which a host has no second: when it begins.
    pub fn recording(&self) -> String {
        self.time("%Y%m%dT%H%M%S.%9fZ")
    }

    /// Where a table of it lies.
    pub fn key(&self, table: &str) -> String {
        format!(
            "{table}/service={}/host={}/{}/{}.parquet",
            partition(&self.service),
            partition(&self.host),
            self.time("date=%Y-%m-%d/hour=%H"),
            self.recording()
        )
    }

    fn time(&self, format: &str) -> String {
        // Past the year 9999 there is no time.
        let time = Timestamp::from_nanosecond(i128::from(self.start_unix_ns));
        let time = time.unwrap_or(Timestamp::MAX).to_zoned(TimeZone::UTC);
        time.strftime(format).to_string()
    }
}

/// A value in the name of a partition.
fn partition(value: &str) -> String {
    match value {
        // What Hive writes for nothing.
        "" => "__HIVE_DEFAULT_PARTITION__".into(),
        value => utf8_percent_encode(value, &KEPT).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_partitions_by_service_host_and_time() {
        let mut origin = Origin {
            service: "api".into(),
            host: "web-1.example.org".into(),
            start_unix_ns: 1_795_467_301_023_456_789,
        };
        assert_eq!(
            origin.key("samples"),
            "samples/service=api/host=web-1.example.org/date=2026-11-23/hour=20/20261123T205501.023456789Z.parquet"
        );
        // Nothing in a name leads to another place.
        origin.service = "../a=b/c d".into();
        origin.host.clear();
        assert!(
            origin
                .key("samples")
                .starts_with("samples/service=..%2Fa%3Db%2Fc%20d/host=__HIVE_DEFAULT_PARTITION__/")
        );
        origin.start_unix_ns = u64::MAX;
        assert!(origin.key("samples").contains("/date=2554-07-21/hour=23/"));
    }
}
