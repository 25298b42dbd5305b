//! Older recordings are brought to the present format version while they are read.
//!
//! Every change of the format raises [`FORMAT_VERSION`] and adds one [`Step`] to [`STEPS`]:
//! what happens to `meta.json`, and which columns or tables are new. A new column keeps its default
//! in rows of older files; a new table is empty. A column that changes its meaning gets a new name.
use crate::error::RecordingError;
use crate::meta::FORMAT_VERSION;
use serde_json::Value;
use std::path::Path;

/// What one version of the format changed.
pub struct Step {
    /// The version this step starts from; it leads to the next one.
    pub from: u32,
    /// Changes `meta.json`; an error says what is wrong with it.
    pub meta: fn(&mut Value) -> Result<(), String>,
    /// New columns: table and column.
    pub columns: &'static [(&'static str, &'static str)],
}

/// Every step, in order: the step from version 1 is the first.
const STEPS: &[Step] = &[
    Step {
        from: 1,
        meta: |_| Ok(()),
        columns: &[
            ("sites", "futex"),
            ("sites", "operation"),
            ("sites", "timed"),
            ("sites", "shared"),
            ("slices", "result"),
        ],
    },
    Step {
        from: 2,
        meta: |meta| {
            meta["counted"] = Value::Array(Vec::new());
            Ok(())
        },
        columns: &[("frames", "spinning")],
    },
    Step {
        from: 3,
        meta: |meta| {
            let counted = meta["counted"].as_array_mut();
            for process in counted.ok_or("it has no list of counted processes")? {
                for name in ["events", "lost_events", "released_free"] {
                    process[name] = 0.into();
                }
            }
            Ok(())
        },
        columns: &[],
    },
    Step {
        from: 4,
        meta: |_| Ok(()),
        columns: &[("threads", "stolen_ns")],
    },
    Step {
        from: 5,
        meta: |meta| {
            meta["memory"] = Value::Null;
            Ok(())
        },
        columns: &[],
    },
    Step {
        from: 6,
        meta: |meta| {
            if let Some(memory) = meta["memory"].as_object_mut() {
                memory.insert("kernel_allocated_pages".into(), 0.into());
            }
            Ok(())
        },
        columns: &[("memory_places", "peak_pages")],
    },
    Step {
        from: 7,
        meta: |_| Ok(()),
        columns: &[
            ("memory_places", "zone_waits"),
            ("memory_places", "zone_wait_ns"),
            ("memory_places", "list_waits"),
            ("memory_places", "list_wait_ns"),
        ],
    },
];

/// The oldest version there is.
const FIRST_VERSION: u64 = 1;

/// Brings the contents of `meta.json` to this version and returns the version they had.
pub fn upgrade_meta(meta: &mut Value, path: &Path) -> Result<u32, RecordingError> {
    apply(STEPS, FORMAT_VERSION, meta, path)
}

/// The columns that files of `table` may lack in a recording of this version.
pub fn absent_columns(table: &str, version: u32) -> Vec<&'static str> {
    absent(STEPS, table, version)
}

fn apply(
    steps: &[Step],
    newest: u32,
    meta: &mut Value,
    path: &Path,
) -> Result<u32, RecordingError> {
    let damaged = |reason: String| RecordingError::Meta {
        path: path.to_path_buf(),
        reason,
    };
    let found = meta.get("format_version").and_then(Value::as_u64);
    let found = found.ok_or_else(|| damaged("it has no format_version".into()))?;
    if found < FIRST_VERSION {
        return Err(damaged(format!("there is no format version {found}")));
    }
    let version = u32::try_from(found)
        .ok()
        .filter(|version| *version <= newest);
    let Some(version) = version else {
        return Err(RecordingError::NewerVersion {
            path: path.to_path_buf(),
            found,
            supported: newest,
        });
    };
    for step in steps.iter().filter(|step| step.from >= version) {
        (step.meta)(meta).map_err(damaged)?;
    }
    meta["format_version"] = newest.into();
    Ok(version)
}

fn absent(steps: &[Step], table: &str, version: u32) -> Vec<&'static str> {
    let later = steps.iter().filter(|step| step.from >= version);
    later
        .flat_map(|step| step.columns)
        .filter(|(of, _)| *of == table)
        .map(|(_, column)| *column)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// A format whose version 2 renamed `host` and got `samples.weight_ns`, and whose version 3 got `kind`.
    const HISTORY: &[Step] = &[
        Step {
            from: 1,
            meta: |meta| {
                meta["machine"] = meta.get("host").cloned().ok_or("it has no host")?;
                Ok(())
            },
            columns: &[("samples", "weight_ns"), ("slices", "cpu")],
        },
        Step {
            from: 2,
            meta: |meta| {
                meta["kind"] = "new".into();
                Ok(())
            },
            columns: &[("samples", "site")],
        },
    ];

    fn up(meta: &mut Value) -> Result<u32, RecordingError> {
        apply(HISTORY, 3, meta, Path::new("x.dwell/meta.json"))
    }

    #[test]
    fn every_step_from_the_version_found_is_taken_in_order() {
        let mut old = json!({"format_version": 1, "host": "a"});
        assert_eq!(up(&mut old).unwrap(), 1);
        assert_eq!(
            old,
            json!({"format_version": 3, "host": "a", "machine": "a", "kind": "new"})
        );
        let mut later = json!({"format_version": 2});
        assert_eq!(up(&mut later).unwrap(), 2);
        assert_eq!(later, json!({"format_version": 3, "kind": "new"}));
        let mut newest = json!({"format_version": 3});
        assert_eq!(up(&mut newest).unwrap(), 3);
        assert_eq!(newest, json!({"format_version": 3}));
    }

    #[test]
    fn columns_of_later_versions_may_be_absent() {
        assert_eq!(absent(HISTORY, "samples", 1), ["weight_ns", "site"]);
        assert_eq!(absent(HISTORY, "samples", 2), ["site"]);
        assert_eq!(absent(HISTORY, "slices", 2), [""; 0]);
        assert_eq!(absent(HISTORY, "samples", 3), [""; 0]);
    }

    #[test]
    fn other_versions_are_refused_by_name() {
        let newer = up(&mut json!({"format_version": 4}))
            .unwrap_err()
            .to_string();
        assert!(
            newer.contains("format version 4") && newer.contains("up to 3"),
            "{newer}"
        );
        let huge = up(&mut json!({"format_version": u64::MAX})).unwrap_err();
        assert!(matches!(
            huge,
            RecordingError::NewerVersion {
                found: u64::MAX,
                ..
            }
        ));
        for (meta, message) in [
            (json!({"format_version": 0}), "no format version 0"),
            (json!({"format_version": "1"}), "no format_version"),
            (json!([]), "no format_version"),
            (json!({"format_version": 1}), "it has no host"),
        ] {
            let error = up(&mut meta.clone()).unwrap_err().to_string();
            assert!(error.contains(message), "{meta}: {error}");
        }
    }

    #[test]
    fn there_is_a_step_from_every_earlier_version() {
        let froms: Vec<u32> = STEPS.iter().map(|step| step.from).collect();
        assert_eq!(froms, (1..FORMAT_VERSION).collect::<Vec<_>>());
    }
}
