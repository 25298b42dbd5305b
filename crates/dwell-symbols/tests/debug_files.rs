//! Separate debug files: found where they belong, and not believed when they do not fit.
mod support;

use std::path::{Path, PathBuf};

use dwell_symbols::{Module, Options, Symbol, Symbolizer};
use support::{Lab, addresses, build_id, hex, in_functions, is_named, module, names, run};

/// A program with everything, and its stripped self.
struct Program {
    lab: Lab,
    full: PathBuf,
    stripped: PathBuf,
    addresses: Vec<u64>,
}

impl Program {
    fn new(flags: &[&str]) -> Self {
        let lab = Lab::new();
        let full = lab.compile("inlined.c", &[&["-g", "-O2"], flags].concat());
        let stripped = lab.objcopy(&["--strip-all"], &full, "stripped");
        let addresses = in_functions(&full, &addresses(&full, ".text", 3));
        Self {
            lab,
            full,
            stripped,
            addresses,
        }
    }

    fn expected(&self) -> Vec<Vec<Symbol>> {
        let expected = names(&self.full, &self.addresses, &[]);
        assert!(
            expected.iter().any(|chain| chain.len() == 3),
            "nothing was inlined"
        );
        expected
    }

    /// Puts the debug file into a directory of debug files by build id.
    fn by_build_id(&self, id: &[u8]) -> PathBuf {
        let id = hex(id);
        let directory = self.lab.path("debug");
        let file = format!("debug/.build-id/{}/{}.debug", &id[..2], &id[2..]);
        std::fs::create_dir_all(self.lab.path(&file).parent().unwrap()).unwrap();
        self.lab.objcopy(&["--only-keep-debug"], &self.full, &file);
        directory
    }

    /// A stripped program with a link to its debug file, which is made at `debug`.
    fn linked(&self, debug: &str) -> PathBuf {
        std::fs::create_dir_all(self.lab.path(debug).parent().unwrap()).unwrap();
        let debug = self.lab.objcopy(&["--only-keep-debug"], &self.full, debug);
        let link = format!("--add-gnu-debuglink={}", debug.display());
        self.lab.objcopy(&[&link], &self.stripped, "linked")
    }
}

fn has_lines(names: &[Vec<Symbol>]) -> bool {
    names.iter().flatten().any(|symbol| symbol.line.is_some())
}

#[test]
fn by_build_id() {
    let program = Program::new(&["-Wl,--build-id"]);
    let directory = program.by_build_id(&build_id(&program.full));
    let found = names(&program.stripped, &program.addresses, &[directory]);
    assert_eq!(found, program.expected());
}

#[test]
fn by_build_id_in_the_root_of_the_process() {
    let program = Program::new(&["-Wl,--build-id"]);
    program.by_build_id(&build_id(&program.full));
    let options = Options {
        debug_directories: vec!["/debug".into()],
        ..Options::default()
    };
    let root = program.lab.path("");
    let module = Module {
        root: Some(&root),
        ..module(&program.stripped)
    };
    let found = Symbolizer::new(options).module(&module, &program.addresses);
    assert_eq!(found, program.expected());
}

#[test]
fn a_debug_file_of_another_build_is_not_used() {
    let program = Program::new(&["-Wl,--build-id"]);
    let other = Program::new(&["-Wl,--build-id=0x1234567890abcdef"]);
    // The other build's file under this build's name.
    let directory = other.by_build_id(&build_id(&program.full));
    assert!(!has_lines(&names(
        &program.stripped,
        &program.addresses,
        &[directory]
    )));
}

#[test]
fn by_debug_link_beside_the_program_below_it_and_among_debug_files() {
    for place in ["linked.debug", ".debug/linked.debug"] {
        let program = Program::new(&["-Wl,--build-id=none"]);
        let linked = program.linked(place);
        assert_eq!(
            names(&linked, &program.addresses, &[]),
            program.expected(),
            "{place}"
        );
    }
    let program = Program::new(&["-Wl,--build-id=none"]);
    let own = program.lab.path("");
    let place = format!(
        "debug/{}/linked.debug",
        own.to_str().unwrap().trim_start_matches('/')
    );
    let linked = program.linked(&place);
    let directory = program.lab.path("debug");
    assert_eq!(
        names(&linked, &program.addresses, &[directory]),
        program.expected()
    );
}

#[test]
fn a_linked_file_with_another_checksum_is_not_used() {
    let program = Program::new(&["-Wl,--build-id=none"]);
    let linked = program.linked("linked.debug");
    let debug = program.lab.path("linked.debug");
    let mut bytes = std::fs::read(&debug).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    std::fs::write(&debug, bytes).unwrap();
    assert!(!has_lines(&names(&linked, &program.addresses, &[])));
}

#[test]
fn a_fifo_in_place_of_a_debug_file_blocks_nobody() {
    let program = Program::new(&["-Wl,--build-id=none"]);
    let linked = program.linked("linked.debug");
    let debug = program.lab.path("linked.debug");
    std::fs::remove_file(&debug).unwrap();
    run("mkfifo", [&debug]);
    assert!(!has_lines(&names(&linked, &program.addresses, &[])));
}

#[test]
fn mini_debug_info() {
    let program = Program::new(&[]);
    let symbols = program.lab.objcopy(
        &["--only-keep-debug", "--strip-debug"],
        &program.full,
        "symbols",
    );
    run("xz", [Path::new("-k"), &symbols]);
    let section = format!(".gnu_debugdata={}.xz", symbols.display());
    let with = program
        .lab
        .objcopy(&["--add-section", &section], &program.stripped, "with");
    let functions = |file: &Path| -> Vec<Option<String>> {
        let names = names(file, &program.addresses, &[]);
        names
            .into_iter()
            .map(|chain| {
                chain
                    .last()
                    .filter(|_| is_named(&chain))
                    .map(|s| s.function.clone())
            })
            .collect()
    };
    assert_eq!(functions(&with), functions(&program.full));
    assert!(functions(&program.stripped).iter().all(Option::is_none));
    // Damage costs the names and nothing else.
    let mut bytes = std::fs::read(&with).unwrap();
    let start = bytes.windows(6).position(|w| w == b"\xfd7zXZ\0").unwrap();
    bytes[start + 40..start + 80].fill(0x55);
    let damaged = program.lab.write("damaged", &bytes);
    assert!(functions(&damaged).iter().all(Option::is_none));
}

#[test]
fn a_shared_debug_file_is_followed() {
    let program = Program::new(&["-Wl,--build-id"]);
    let debug = program
        .lab
        .objcopy(&["--only-keep-debug"], &program.full, "one.debug");
    let copy = program.lab.objcopy(&[], &debug, "two.debug");
    let shared = program.lab.path("shared.debug");
    run("dwz", [Path::new("-m"), &shared, &debug, &copy]);
    let sections = run("readelf", [Path::new("-SW"), &debug]);
    assert!(sections.contains(".gnu_debugaltlink"), "dwz shared nothing");
    let link = format!("--add-gnu-debuglink={}", debug.display());
    let linked = program.lab.objcopy(&[&link], &program.stripped, "linked");
    assert_eq!(names(&linked, &program.addresses, &[]), program.expected());
}

#[test]
fn a_replaced_program_has_no_names() {
    let program = Program::new(&["-Wl,--build-id"]);
    let mut symbolizer = Symbolizer::new(Options::default());
    let id = build_id(&program.full);
    let right = Module {
        build_id: Some(&id),
        ..module(&program.full)
    };
    assert_eq!(
        symbolizer.module(&right, &program.addresses),
        program.expected()
    );
    assert_eq!(symbolizer.notes(), [""; 0]);
    let wrong = Module {
        build_id: Some(&[1, 2, 3]),
        ..right
    };
    let names = symbolizer.module(&wrong, &program.addresses);
    assert_eq!(names, vec![Vec::new(); program.addresses.len()]);
    assert!(
        symbolizer.notes()[0].contains("was replaced"),
        "{:?}",
        symbolizer.notes()
    );
}

#[test]
fn without_debug_information_there_is_a_note() {
    let program = Program::new(&["-Wl,--build-id"]);
    let options = Options {
        debug_directories: Vec::new(),
        ..Options::default()
    };
    let mut symbolizer = Symbolizer::new(options);
    symbolizer.module(&module(&program.stripped), &program.addresses);
    assert!(
        symbolizer.notes()[0].starts_with("no debug information"),
        "{:?}",
        symbolizer.notes()
    );
}

#[test]
fn without_lines_only_symbol_tables_are_read() {
    let program = Program::new(&[]);
    let options = Options {
        lines: false,
        ..Options::default()
    };
    let names = Symbolizer::new(options).module(&module(&program.full), &program.addresses);
    let outer = |chain: &Vec<Symbol>| chain.last().map(|s| s.function.clone());
    assert!(
        names
            .iter()
            .all(|chain| chain.len() == 1 && chain[0].line.is_none())
    );
    assert_eq!(
        names.iter().map(outer).collect::<Vec<_>>(),
        program.expected().iter().map(outer).collect::<Vec<_>>()
    );
}
