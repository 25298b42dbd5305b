//! Holds the shape of the workspace: imports go down and never sideways, and every dependency has a
//! licence that `deny.toml` allows.
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The level of each crate; a crate may use those of lower levels.
const LEVELS: &[(&str, u32)] = &[
    ("dwell-abi", 0),
    ("dwell-agent", 0),
    ("dwell-elf", 0),
    ("dwell-hotspot", 0),
    ("dwell-python", 0),
    ("dwell-v8", 0),
    ("dwell-pprof", 0),
    ("dwell-recording", 0),
    ("dwell-symbols", 1),
    ("dwell-collector", 1),
    ("dwell-patch", 1),
    ("dwell-maps", 0),
    ("dwell-analysis", 1),
    ("dwell-booster", 2),
    ("dwell-spin", 1),
    ("dwell-switch", 1),
    ("dwell-whatif", 1),
    ("dwell-script", 1),
    ("dwell-debuginfo", 2),
    ("dwell-jit", 1),
    ("dwell-locks", 2),
    ("dwell-findings", 2),
    ("dwell-report", 3),
    ("dwell-trace", 2),
    ("dwell-import", 2),
    ("dwell-delivery", 4),
    ("dwell", 5),
];

/// Uses within one level: what both sides know is agreed on in `dwell-abi`; memory of processes is read as `dwell-maps` has it.
const SIDEWAYS: &[(&str, &str)] = &[
    ("dwell-elf", "dwell-abi"),
    ("dwell-hotspot", "dwell-abi"),
    ("dwell-python", "dwell-abi"),
    ("dwell-v8", "dwell-abi"),
    ("dwell-hotspot", "dwell-maps"),
    ("dwell-python", "dwell-maps"),
    ("dwell-v8", "dwell-maps"),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn metadata() -> Value {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--locked", "--offline"])
        .args(["--filter-platform", "x86_64-unknown-linux-gnu"])
        .current_dir(root())
        .output()
        .expect("cargo runs");
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "cargo metadata: {message}");
    serde_json::from_slice(&output.stdout).expect("cargo metadata prints JSON")
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().map_or(&[], Vec::as_slice)
}

/// The crates of the workspace, each with the crates of the workspace that it names. Build scripts
/// count; tests do not, since a test may compare with anything.
fn uses(metadata: &Value) -> BTreeMap<String, BTreeSet<String>> {
    let members: BTreeSet<&str> = list(metadata, "workspace_members")
        .iter()
        .filter_map(Value::as_str)
        .collect();
    let packages: Vec<&Value> = list(metadata, "packages")
        .iter()
        .filter(|p| members.contains(text(p, "id")))
        .collect();
    let names: BTreeSet<&str> = packages.iter().map(|p| text(p, "name")).collect();
    packages
        .iter()
        .map(|package| {
            let used = list(package, "dependencies")
                .iter()
                .filter(|d| text(d, "kind") != "dev" && names.contains(text(d, "name")))
                .map(|d| text(d, "name").to_owned());
            (text(package, "name").to_owned(), used.collect())
        })
        .collect()
}

/// What is wrong with these uses, in words.
fn violations(uses: &BTreeMap<String, BTreeSet<String>>) -> Vec<String> {
    let levels: BTreeMap<&str, u32> = LEVELS.iter().copied().collect();
    let mut found = Vec::new();
    for (user, used) in uses {
        let Some(level) = levels.get(user.as_str()) else {
            found.push(format!("{user} has no level: give it one in LEVELS"));
            continue;
        };
        for dependency in used {
            let allowed_sideways = SIDEWAYS.contains(&(user, dependency));
            if levels.get(dependency.as_str()).is_some_and(|l| l >= level) && !allowed_sideways {
                found.push(format!(
                    "{user} (level {level}) uses {dependency}, which is not below it"
                ));
            }
        }
    }
    found
}

/// The licences allowed in `deny.toml`.
fn allowed_licences() -> BTreeSet<String> {
    let path = root().join("deny.toml");
    let deny: toml::Table = std::fs::read_to_string(path)
        .expect("deny.toml")
        .parse()
        .expect("deny.toml is TOML");
    let allow = deny["licenses"]["allow"]
        .as_array()
        .expect("licenses.allow is a list");
    allow
        .iter()
        .filter_map(|l| l.as_str())
        .map(str::to_owned)
        .collect()
}

/// True when the licence expression can be met with allowed licences. Knows `OR`, `AND`, `/` and
/// parentheses as far as crates use them: a list of alternatives, each a list of demands.
fn licence_allowed(expression: &str, allowed: &BTreeSet<String>) -> bool {
    let plain = expression.replace('/', " OR ");
    // `(A OR B) AND C` needs C and one of A, B.
    plain.split(" AND ").all(|demand| {
        let alternatives = demand.trim().trim_matches(['(', ')']);
        alternatives
            .split(" OR ")
            .any(|l| allowed.contains(l.trim().trim_matches(['(', ')'])))
    })
}

#[test]
fn imports_only_go_down() {
    let uses = uses(&metadata());
    assert!(
        uses.contains_key("dwell"),
        "the workspace was not read: {uses:?}"
    );
    assert_eq!(violations(&uses), Vec::<String>::new());
}

#[test]
fn an_import_sideways_or_up_is_noticed() {
    let uses = |user: &str, used: &str| {
        BTreeMap::from([(user.to_owned(), BTreeSet::from([used.to_owned()]))])
    };
    assert_eq!(
        violations(&uses("dwell-report", "dwell-analysis")),
        Vec::<String>::new()
    );
    assert_eq!(
        violations(&uses("dwell-collector", "dwell-symbols")).len(),
        1
    );
    assert_eq!(violations(&uses("dwell-abi", "dwell-elf")).len(), 1);
    assert_eq!(violations(&uses("dwell-new", "dwell-elf")).len(), 1);
}

#[test]
fn every_dependency_has_an_allowed_licence() {
    let allowed = allowed_licences();
    let metadata = metadata();
    let packages = list(&metadata, "packages");
    assert!(packages.len() > 10, "the dependencies were not read");
    let refused: Vec<String> = packages
        .iter()
        .filter(|p| !licence_allowed(text(p, "license"), &allowed))
        .map(|p| {
            format!(
                "{} {}: {:?}",
                text(p, "name"),
                text(p, "version"),
                text(p, "license")
            )
        })
        .collect();
    assert_eq!(refused, Vec::<String>::new(), "not allowed by deny.toml");
}

#[test]
fn licence_expressions() {
    let allowed = BTreeSet::from(["MIT".to_owned(), "Unicode-3.0".to_owned()]);
    assert!(licence_allowed("MIT/Apache-2.0", &allowed));
    assert!(licence_allowed(
        "(MIT OR Apache-2.0) AND Unicode-3.0",
        &allowed
    ));
    assert!(!licence_allowed("MIT AND GPL-2.0", &allowed));
    assert!(!licence_allowed("", &allowed));
}
