//! Which values of a sample are time, and of what.
use super::wire::Tables;
use crate::ImportError;
use dwell_recording::rows::reason;

/// One value of every sample that counts.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// Its place among the values.
    value: usize,
    /// The place of a value that it contains, which is subtracted.
    less: Option<usize>,
    /// One of it in nanoseconds.
    unit_ns: f64,
    /// Why threads waited meanwhile; none: they ran.
    pub reason: Option<&'static str>,
    /// The label `state` tells what threads did.
    pub by_state: bool,
}

/// The values that count.
#[derive(Clone, Debug, PartialEq)]
pub struct Columns {
    columns: Vec<Column>,
    /// What a person should know.
    pub notes: Vec<String>,
}

/// A unit of time in nanoseconds.
fn time_unit(unit: &str) -> Option<f64> {
    match unit {
        "nanoseconds" | "nanosecond" | "ns" => Some(1.0),
        "microseconds" | "microsecond" | "us" => Some(1e3),
        "milliseconds" | "millisecond" | "ms" => Some(1e6),
        "seconds" | "second" | "s" => Some(1e9),
        _ => None,
    }
}

/// Mean distance of two samples, where that is time.
pub fn period_ns(tables: &Tables<'_>) -> Option<u64> {
    let unit = time_unit(tables.text(tables.period_type?.unit))?;
    (tables.period > 0).then_some((tables.period as f64 * unit) as u64)
}

/// Why threads wait in a column of this name; none: they run.
fn waits(name: &str) -> Option<&'static str> {
    let name = name.to_ascii_lowercase();
    let is = |part: &str| name.contains(part);
    if is("lock") || is("mutex") || is("contention") || is("delay") {
        Some(reason::LOCK)
    } else if is("off") || is("wait") || is("block") || is("idle") {
        Some(reason::OTHER)
    } else {
        None
    }
}

impl Columns {
    /// Those of a profile.
    pub fn of(tables: &Tables<'_>) -> Result<Columns, ImportError> {
        let types = &tables.sample_type;
        let name = |i: usize| tables.text(types[i].r#type);
        let unit = |i: usize| time_unit(tables.text(types[i].unit));
        let find = |names: &[&str]| {
            (0..types.len()).find(|i| names.contains(&name(*i)) && unit(*i).is_some())
        };
        let column = |value, unit_ns| Column {
            value,
            less: None,
            unit_ns,
            reason: None,
            by_state: false,
        };
        let all = |columns| Columns {
            columns,
            notes: Vec::new(),
        };
        let wall = find(&["wall", "wall-time"]);
        let cpu = find(&["cpu", "cpu-time"]);
        if let (Some(wall), Some(_), Some(_)) = (wall, cpu, find(&["off_cpu"])) {
            let by_state = Column {
                by_state: true,
                ..column(wall, unit(wall).unwrap_or(1.0))
            };
            return Ok(all(vec![by_state]));
        }
        if let (Some(wall), Some(cpu)) = (wall, cpu)
            && unit(wall) == unit(cpu)
        {
            let unit_ns = unit(wall).unwrap_or(1.0);
            let waited = Column {
                less: Some(cpu),
                reason: Some(reason::OTHER),
                ..column(wall, unit_ns)
            };
            return Ok(all(vec![column(cpu, unit_ns), waited]));
        }
        let times: Vec<Column> = (0..types.len())
            .filter_map(|i| {
                Some(Column {
                    reason: waits(name(i)),
                    ..column(i, unit(i)?)
                })
            })
            .collect();
        if !times.is_empty() {
            return Ok(all(one_of_each(times, |c| name(c.value))));
        }
        Self::counts(tables)
    }

    /// Of a profile without times.
    fn counts(tables: &Tables<'_>) -> Result<Columns, ImportError> {
        let mut types = tables.sample_type.iter();
        let Some(value) = types.position(|t| tables.text(t.unit) == "count") else {
            let units: Vec<&str> = tables
                .sample_type
                .iter()
                .map(|t| tables.text(t.unit))
                .collect();
            return Err(ImportError::Unsupported(format!(
                "the profile counts {}, not time: dwell's recordings hold thread time; look at it with `go tool pprof`",
                if units.is_empty() {
                    "nothing".into()
                } else {
                    units.join(", ")
                }
            )));
        };
        let period = period_ns(tables);
        let notes = match period {
            Some(_) => Vec::new(),
            None => vec![
                "the profile counts samples and does not say how long one is: it is shown as 1 ms"
                    .into(),
            ],
        };
        let column = Column {
            value,
            less: None,
            unit_ns: period.unwrap_or(1_000_000) as f64,
            reason: None,
            by_state: false,
        };
        Ok(Columns {
            columns: vec![column],
            notes,
        })
    }

    /// The times of a sample, ns.
    pub fn times<'c>(&'c self, values: &'c [i64]) -> impl Iterator<Item = (&'c Column, u64)> {
        let value = |at: usize| values.get(at).copied().unwrap_or(0);
        self.columns.iter().map(move |column| {
            let less = column.less.map_or(0, value);
            let left = value(column.value).saturating_sub(less).max(0);
            // Whole nanoseconds stay what they are.
            let ns = if column.unit_ns == 1.0 {
                left as u64
            } else {
                (left as f64 * column.unit_ns).round() as u64
            };
            (column, ns)
        })
    }
}

/// Of several columns in which threads run, and several in which they wait, one each: they are different
/// views of the same time.
fn one_of_each<'n>(times: Vec<Column>, name: impl Fn(&Column) -> &'n str) -> Vec<Column> {
    let running = times.iter().filter(|c| c.reason.is_none());
    let cpu = running.clone().find(|c| name(c).contains("cpu"));
    let running = cpu.or(running.clone().next()).cloned();
    let waiting = times.iter().find(|c| c.reason.is_some()).cloned();
    [running, waiting].into_iter().flatten().collect()
}
