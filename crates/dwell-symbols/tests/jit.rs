//! Perf maps and jitdump files, right, replaced, planted and damaged.
mod support;

use std::path::{Path, PathBuf};

use dwell_symbols::{JitProcess, Options, Symbolizer, name_from_jitdump, name_from_perf_map};
use support::{Lab, Random};

/// Writes jitdump files as the format is defined.
struct Dump(Vec<u8>);

impl Dump {
    fn new() -> Self {
        let mut bytes = Vec::new();
        for word in [0x4A69_5444u32, 1, 40, 62, 0, 4711] {
            bytes.extend(word.to_ne_bytes());
        }
        bytes.extend([0; 16]);
        Self(bytes)
    }

    fn record(mut self, kind: u32, body: &[u8]) -> Self {
        self.0.extend(kind.to_ne_bytes());
        self.0.extend((16 + body.len() as u32).to_ne_bytes());
        self.0.extend([0; 8]);
        self.0.extend(body);
        self
    }

    fn load(self, address: u64, size: u64, index: u64, name: &str) -> Self {
        let mut body = Vec::new();
        body.extend(4711u32.to_ne_bytes());
        body.extend(4712u32.to_ne_bytes());
        for word in [address, address, size, index] {
            body.extend(word.to_ne_bytes());
        }
        body.extend(name.as_bytes());
        body.push(0);
        body.resize(body.len() + size as usize, 0xcc);
        self.record(0, &body)
    }

    fn moved(self, old: u64, new: u64, size: u64, index: u64) -> Self {
        let mut body = vec![0; 8];
        for word in [new, old, new, size, index] {
            body.extend(word.to_ne_bytes());
        }
        self.record(1, &body)
    }

    fn lines(self, code: u64, rows: &[(u64, i32, &str)]) -> Self {
        let mut body = Vec::new();
        body.extend(code.to_ne_bytes());
        body.extend((rows.len() as u64).to_ne_bytes());
        for (address, line, file) in rows {
            body.extend(address.to_ne_bytes());
            body.extend(line.to_ne_bytes());
            body.extend([0; 4]);
            match *file {
                "same" => body.push(0xff),
                file => body.extend(file.as_bytes()),
            }
            body.push(0);
        }
        self.record(2, &body)
    }
}

fn process<'a>(root: &'a Path, dumps: &'a [PathBuf]) -> JitProcess<'a> {
    JitProcess {
        pid: 900_001,
        ns_pid: 7,
        root: Some(root),
        uid: None,
        dumps,
    }
}

#[test]
fn maps_by_either_process_id() {
    let lab = Lab::new();
    let root = lab.path("");
    lab.write(
        "tmp/perf-7.map",
        b"1000 100 inner\n2000 10 py::run:/app/x.py\n",
    );
    lab.write("tmp/perf-900001.map", b"1000 100 outer\n3000 10 attached\n");
    let mut symbolizer = Symbolizer::new(Options::default());
    let names = symbolizer.jit(
        &process(&root, &[]),
        &[0x3000, 0x10ff, 0x2000, 0x10ff, 0x5000],
    );
    let functions: Vec<_> = names
        .iter()
        .map(|n| n.first().map(|s| s.function.as_str()))
        .collect();
    assert_eq!(
        functions,
        [
            Some("attached"),
            Some("inner"),
            Some("run"),
            Some("inner"),
            None
        ]
    );
    assert_eq!(names[2][0].file.as_deref(), Some("/app/x.py"));
}

#[test]
fn links_do_not_lead_out_of_the_root() {
    let lab = Lab::new();
    let outside = lab.write("secret", b"1000 100 outside\n");
    lab.write("inside/real", b"1000 100 inside\n");
    let root = lab.path("inside");
    std::fs::create_dir(root.join("tmp")).unwrap();
    let map = root.join("tmp/perf-7.map");
    std::os::unix::fs::symlink(&outside, &map).unwrap();
    let mut symbolizer = Symbolizer::new(Options::default());
    assert_eq!(symbolizer.jit(&process(&root, &[]), &[0x1000]), [vec![]]);
    std::fs::remove_file(&map).unwrap();
    std::os::unix::fs::symlink("/real", &map).unwrap();
    let names = symbolizer.jit(&process(&root, &[]), &[0x1000]);
    assert_eq!(names[0][0].function, "inside");
}

#[test]
fn files_of_other_users_are_not_believed() {
    use std::os::unix::fs::MetadataExt;
    let lab = Lab::new();
    let root = lab.path("");
    let map = lab.write("tmp/perf-7.map", b"1000 100 name\n");
    let owner = std::fs::metadata(&map).unwrap().uid();
    let mut symbolizer = Symbolizer::new(Options::default());
    let own = JitProcess {
        uid: Some(owner),
        ..process(&root, &[])
    };
    assert_eq!(symbolizer.jit(&own, &[0x1000])[0].len(), 1);
    // Root's files are believed by everybody.
    if owner != 0 {
        let other = JitProcess {
            uid: Some(owner + 1),
            ..own
        };
        assert_eq!(symbolizer.jit(&other, &[0x1000]), [vec![]]);
        assert!(symbolizer.notes()[0].contains("another user"));
    }
}

#[test]
fn jitdump_loads_moves_and_lines() {
    let lab = Lab::new();
    let root = lab.path("");
    let dump = Dump::new()
        .load(0x1000, 0x100, 1, "first")
        .load(0x1080, 0x20, 2, "second")
        .lines(
            0x3000,
            &[
                (0x3000, 10, "/a.js"),
                (0x3010, 12, "same"),
                (0x3020, 3, "/b.js"),
            ],
        )
        .load(0x3000, 0x40, 3, "third")
        .lines(0x4000, &[(0x4040, 21, "/v.js"), (0x4050, 22, "same")])
        .load(0x4000, 0x40, 4, "_ZN3foo3barEi")
        .moved(0x1000, 0x9000, 0x100, 1)
        .record(99, b"unknown")
        .record(3, b"");
    lab.write("home/jit-7.dump", &dump.0);
    lab.write("tmp/perf-7.map", b"1000 10 map loses\n8000 10 map fills\n");
    let dumps = [PathBuf::from("/home/jit-7.dump")];
    let mut symbolizer = Symbolizer::new(Options::default());
    let at = [
        0x1000, 0x1080, 0x10a0, 0x3008, 0x3010, 0x3025, 0x400f, 0x4010, 0x90ff, 0x8000,
    ];
    let names = symbolizer.jit(&process(&root, &dumps), &at);
    let row = |i: usize| {
        let symbol = &names[i][0];
        (
            symbol.function.as_str(),
            symbol.file.as_deref(),
            symbol.line,
        )
    };
    assert_eq!(row(0), ("first", None, None));
    assert_eq!(row(1), ("second", None, None));
    assert_eq!(row(2), ("first", None, None));
    assert_eq!(row(3), ("third", Some("/a.js"), Some(10)));
    assert_eq!(row(4), ("third", Some("/a.js"), Some(12)));
    assert_eq!(row(5), ("third", Some("/b.js"), Some(3)));
    assert_eq!(row(6), ("foo::bar(int)", Some("/v.js"), Some(21)));
    assert_eq!(row(7), ("foo::bar(int)", Some("/v.js"), Some(22)));
    assert_eq!(row(8), ("first", None, None));
    assert_eq!(row(9), ("map fills", None, None));
}

#[test]
fn foreign_files_are_refused_by_name() {
    let swapped = 0x4A69_5444u32.swap_bytes().to_ne_bytes();
    let mut dump = Dump::new().0;
    dump[..4].copy_from_slice(&swapped);
    let error = name_from_jitdump(&dump, 0).unwrap_err().to_string();
    assert!(error.contains("not a jitdump file"), "{error}");
    let mut dump = Dump::new().0;
    dump[4] = 9;
    assert!(
        name_from_jitdump(&dump, 0)
            .unwrap_err()
            .to_string()
            .contains("version 9")
    );
    assert!(name_from_jitdump(b"JiTD", 0).is_err());
}

#[test]
fn a_dump_cut_anywhere_keeps_what_is_whole() {
    let first = Dump::new().load(0x1000, 0x10, 1, "first");
    let whole = first.0.len();
    let dump = first.load(0x2000, 0x10, 2, "second").0;
    for length in 40..dump.len() {
        let name = name_from_jitdump(&dump[..length], 0x1000).unwrap();
        // The name is followed by the code, which nobody needs.
        let expected = (length >= whole - 0x10).then(|| "first".to_owned());
        assert_eq!(name, expected, "cut at {length}");
    }
}

#[test]
fn damaged_dumps_and_maps_harm_nobody() {
    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    let dump = Dump::new()
        .load(0x1000, 0x40, 1, "first")
        .lines(0x3000, &[(0x3000, 10, "/a.js"), (0x3010, 12, "same")])
        .load(0x3000, 0x40, 3, "third")
        .moved(0x1000, 0x9000, 0x100, 1)
        .0;
    let map = b"1000 100 inner\n2000 10 py::run:/app/x.py\n0x3000 20 a b c\n".repeat(4);
    let mut named = 0;
    for _ in 0..20_000 {
        let mut bytes = dump.clone();
        random.mutate(&mut bytes);
        for address in [0x1000, 0x3010, 0x9000] {
            named += usize::from(matches!(name_from_jitdump(&bytes, address), Ok(Some(_))));
        }
        let mut bytes = map.clone();
        random.mutate(&mut bytes);
        named += usize::from(name_from_perf_map(&bytes, 0x1000).is_some());
    }
    assert!(named > 20_000, "damage should leave most names: {named}");
}
