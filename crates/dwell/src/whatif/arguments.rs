//! What can be typed behind `dwell whatif`.
use crate::cli::Input;
use clap::Args;
use dwell_report::whatif::Question;
use dwell_whatif::Kind;

pub const EXAMPLES: &str = "\
Threads, locks and processors are simulated with what the recording tells of them; what locks and the
scheduler cost is measured here once, in about a second. Every figure has bounds. Without options the usual
remedies are tried, the best first. Lists are 1,2,4 or 1..64, which stands for 1,2,4,8,16,32,64.

Examples:
  dwell record --locks -p 4711 --duration 10s -o api.dwell
  dwell whatif api.dwell                                   what would help
  dwell whatif api.dwell --lock cache --threads 1..64      how many threads are worth having
  dwell whatif api.dwell --batch 1,4,16 --kind mcs,mutex   all six combinations
  dwell whatif api.dwell --shards 1..16 --explain
  dwell whatif api.dwell --processors 96,128,272           a larger machine: a prediction
  dwell whatif api.dwell --json | jq '.rows[0] | {what, gain}'";

/// `dwell whatif`.
#[derive(Args, Debug)]
pub struct WhatIfArgs {
    #[command(flatten)]
    pub input: Input,
    /// The lock that is meant: a part of its name, or of the function that spins for it. Default: the one that costs
    /// most.
    #[arg(long, value_name = "LOCK")]
    pub lock: Option<String>,
    /// Numbers of threads that take the lock.
    #[arg(long, value_name = "LIST", value_parser = list)]
    pub threads: Option<List>,
    /// Units of work per acquisition, of one as recorded.
    #[arg(long, value_name = "LIST", value_parser = list)]
    pub batch: Option<List>,
    /// How much of a hold grows with the batch: 0 % where a batch is taken in one step, 100 % where each unit is
    /// worked on with the lock held.
    #[arg(long, value_name = "PERCENT", default_value = "0", value_parser = percent)]
    pub hold_per_unit: f64,
    /// Kinds of lock: tas, ttas, ticket, mcs (queued), adaptive (spins, then sleeps), mutex (sleeps).
    #[arg(long, value_name = "KIND", value_delimiter = ',', value_parser = kind)]
    pub kind: Vec<Kind>,
    /// Into how many locks it is divided; an acquisition takes any of them.
    #[arg(long, value_name = "LIST", value_parser = list)]
    pub shards: Option<List>,
    /// Holds of this length, in percent of what they are: 50,10.
    #[arg(long, value_name = "PERCENT", value_delimiter = ',', value_parser = percent)]
    pub hold: Vec<f64>,
    /// Numbers of processors.
    #[arg(long, value_name = "LIST", value_parser = list)]
    pub processors: Option<List>,
    /// Units per second that the program says it did, where it spins for a lock of its own, whose acquisitions are not
    /// counted.
    #[arg(long, value_name = "PER_SECOND")]
    pub rate: Option<f64>,
    /// Say of each change where threads' time goes and what the limit is.
    #[arg(long)]
    pub explain: bool,
    /// Print JSON with the same content.
    #[arg(long)]
    pub json: bool,
}

impl WhatIfArgs {
    /// What is asked.
    pub fn question(&self) -> Question {
        let numbers = |list: &Option<List>| list.as_ref().map_or_else(Vec::new, |l| l.0.clone());
        let sizes = |list| numbers(list).into_iter().map(|n| n as usize).collect();
        Question {
            lock: self.lock.clone(),
            rate: self.rate,
            threads: sizes(&self.threads),
            batches: numbers(&self.batch),
            hold_per_unit: self.hold_per_unit,
            kinds: self.kind.clone(),
            shards: numbers(&self.shards),
            holds: self.hold.clone(),
            processors: sizes(&self.processors),
        }
    }
}

/// Numbers to try.
#[derive(Clone, Debug, PartialEq)]
pub struct List(Vec<u32>);

/// The largest number in a list: more threads or processors take too long to simulate.
const MOST: u32 = 4096;

fn list(text: &str) -> Result<List, String> {
    let number = |part: &str| {
        let number = part.trim().parse().ok();
        number.filter(|n| (1..=MOST).contains(n)).ok_or_else(|| {
            format!("{part:?} is no number from 1 to {MOST}: write 4, or 1,2,4, or 1..64")
        })
    };
    let mut numbers = Vec::new();
    for part in text.split(',') {
        match part.split_once("..") {
            None => numbers.push(number(part)?),
            Some((first, last)) => {
                let (mut next, last) = (number(first)?, number(last)?);
                while next < last {
                    numbers.push(next);
                    next *= 2;
                }
                numbers.push(last);
            }
        }
    }
    Ok(List(numbers))
}

fn kind(text: &str) -> Result<Kind, String> {
    let names: Vec<&str> = Kind::ALL.iter().map(|k| k.name()).collect();
    Kind::of(text).ok_or_else(|| format!("there are {}", names.join(", ")))
}

/// A percentage as a share.
fn percent(text: &str) -> Result<f64, String> {
    let number: Option<f64> = text.trim_end_matches('%').parse().ok();
    let number = number.filter(|n| (0.0..=1000.0).contains(n));
    number
        .map(|n| n / 100.0)
        .ok_or_else(|| "a percentage, such as 50".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_numbers_or_doublings() {
        assert_eq!(list("1..64"), Ok(List(vec![1, 2, 4, 8, 16, 32, 64])));
        assert_eq!(list("3..10"), Ok(List(vec![3, 6, 10])));
        assert_eq!(list("1,5"), Ok(List(vec![1, 5])));
        assert!(list("0").is_err() && list("x").is_err() && list("5000").is_err());
        assert_eq!(percent("50%"), Ok(0.5));
        assert!(percent("-1").is_err() && kind("mutes").is_err());
        assert_eq!(kind("mcs"), Ok(Kind::Mcs));
    }
}
