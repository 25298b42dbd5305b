//! Names, lines and inlined functions next to what binutils says about the same addresses.
mod support;

use std::path::Path;

use support::{Lab, Row, addr2line, addresses, in_functions, names, normal_path, rows};

/// Compares every chain of frames.
fn check(file: &Path) {
    let all = in_functions(file, &addresses(file, ".text", 3));
    let ours = names(file, &all, &[]);
    let theirs = addr2line(file, &all);
    let mut wrong = Vec::new();
    for ((address, ours), theirs) in all.iter().zip(&ours).zip(&theirs) {
        let ours: Vec<Row> = rows(ours).into_iter().map(plain).collect();
        let mut theirs: Vec<Row> = theirs.iter().cloned().map(plain).collect();
        accept_fuller_names(&ours, &mut theirs);
        let same_names = ours.iter().map(|r| &r.0).eq(theirs.iter().map(|r| &r.0));
        if ours != theirs && !(same_names && elfutils_agrees(file, *address, &ours)) {
            wrong.push(format!(
                "{address:#x}\n  ours   {ours:?}\n  theirs {theirs:?}"
            ));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {} differ, such as\n{}",
        wrong.len(),
        all.len(),
        wrong[..wrong.len().min(3)].join("\n")
    );
}

/// True when elfutils tells the same files and lines: binutils mistakes the numbers of files in
/// some tables of DWARF 5.
fn elfutils_agrees(file: &Path, address: u64, ours: &[Row]) -> bool {
    let address = format!("{address:#x}");
    let output = support::run(
        "eu-addr2line",
        [Path::new("-ie"), file, Path::new(&address)],
    );
    let row = |line: &str| {
        let mut parts = line.split(':');
        let path = normal_path(parts.next().unwrap());
        (path, parts.next().and_then(|n| n.parse().ok()).unwrap_or(0))
    };
    let theirs: Vec<(String, u32)> = output.lines().map(row).collect();
    theirs
        == ours
            .iter()
            .map(|(_, file, line)| (file.clone(), *line))
            .collect::<Vec<_>>()
}

/// Takes over our name in two cases where binutils says less.
fn accept_fuller_names(ours: &[Row], theirs: &mut [Row]) {
    if ours.len() != theirs.len() || ours.is_empty() {
        return;
    }
    // Where the innermost function was inlined and has no mangled name, binutils shows the name
    // of the symbol at the address instead, which is the outermost function's.
    let last = ours.len() - 1;
    if last > 0 && theirs[0].0 == theirs[last].0 {
        theirs[0].0.clone_from(&ours[0].0);
    }
    // Where the outermost one has none, it shows the bare name; we take that of the symbol.
    if ours[last].0.contains(&format!("::{}(", theirs[last].0)) {
        theirs[last].0.clone_from(&ours[last].0);
    }
}

/// Without what is a matter of taste: where only the symbol table knows a function, binutils
/// shows the object file's name as its source; it writes `/x/../y`, and says of functions that
/// were cut in two which part it is.
fn plain((function, file, line): Row) -> Row {
    let function = function.replace(" [clone .cold]", "").replace(".cold", "");
    let file = if line == 0 {
        String::new()
    } else {
        normal_path(&file)
    };
    (function, file, line)
}

#[test]
fn c_with_inlined_functions() {
    let lab = Lab::new();
    for flags in [
        ["-g", "-gdwarf-5", "-O2"],
        ["-g", "-gdwarf-4", "-O2"],
        ["-g", "-g3", "-O0"],
    ] {
        let program = lab.compile("inlined.c", &flags);
        check(&program);
    }
}

#[test]
fn c_plus_plus_with_templates() {
    let lab = Lab::new();
    for flags in [
        ["-g", "-gdwarf-5", "-O2"],
        ["-g", "-gdwarf-4", "-O2"],
        ["-g", "-g3", "-O0"],
    ] {
        let program = lab.compile("templates.cpp", &flags);
        check(&program);
    }
}

#[test]
fn rust_with_default_and_v0_mangling() {
    let lab = Lab::new();
    for flags in [
        &["-g", "-O"][..],
        &["-g", "-O", "-Csymbol-mangling-version=v0"],
    ] {
        let program = lab.compile("generic.rs", flags);
        check(&program);
    }
}

#[test]
fn compressed_sections() {
    let lab = Lab::new();
    let program = lab.compile("templates.cpp", &["-g", "-O2"]);
    for format in ["zlib", "zlib-gnu", "zstd"] {
        let flag = format!("--compress-debug-sections={format}");
        let packed = lab.objcopy(&[&flag], &program, "packed");
        let all = addresses(&program, ".text", 7);
        assert_eq!(
            names(&packed, &all, &[]),
            names(&program, &all, &[]),
            "{format}"
        );
    }
}

#[test]
fn stubs_of_the_linkage_table() {
    let lab = Lab::new();
    for flags in [
        ["-O2", "-fcf-protection=full"],
        ["-O2", "-fcf-protection=none"],
        ["-O2", "-Wl,-z,now"],
    ] {
        let program = lab.compile("templates.cpp", &flags);
        let stripped = lab.objcopy(&["--strip-all"], &program, "stripped");
        let listing = support::run("objdump", [Path::new("-d"), stripped.as_path()]);
        let mut stubs = Vec::new();
        for line in listing.lines().filter(|l| l.ends_with("@plt>:")) {
            let (address, name) = line.split_once(" <").unwrap();
            stubs.push((
                u64::from_str_radix(address, 16).unwrap(),
                name.trim_end_matches(">:"),
            ));
        }
        assert!(stubs.len() > 10, "{} stubs", stubs.len());
        // The second instruction of a stub belongs to it as well.
        let all: Vec<u64> = stubs.iter().map(|s| s.0 + 4).collect();
        for (chain, (address, stub)) in names(&stripped, &all, &[]).iter().zip(&stubs) {
            let expected = dwell_symbols::demangle(stub.trim_end_matches("@plt")) + "@plt";
            assert_eq!(chain.len(), 1, "{address:#x} {expected}");
            assert_eq!(chain[0].function, expected, "{address:#x}");
        }
    }
}

/// The symbol table that the stripped copy lacks says where each function begins.
#[test]
fn functions_of_stripped_programs_are_called_by_their_begin() {
    let lab = Lab::new();
    for (source, flags) in [
        ("inlined.c", ["-O2"]),
        ("templates.cpp", ["-O2"]),
        ("templates.cpp", ["-O0"]),
    ] {
        let program = lab.compile(source, &flags);
        let stripped = lab.objcopy(&["--strip-all"], &program, "stripped");
        let all = addresses(&program, ".text", 1);
        let symbols = support::functions(&program);
        let mut compared = 0;
        for (address, chain) in all.iter().zip(names(&stripped, &all, &[])) {
            let [symbol] = &chain[..] else { continue };
            // Exported names stay; where a name has no size, binutils' table does not tell either.
            let covering = symbols.iter().filter(|f| f.contains(address));
            if let Some(function) = covering.max_by_key(|f| f.start)
                && symbol.function.starts_with('[')
            {
                let expected = format!("[stripped+{:#x}]", function.start);
                assert_eq!(symbol.function, expected, "{address:#x} of {source}");
                compared += 1;
            }
        }
        let covered = all.iter().filter(|a| symbols.iter().any(|f| f.contains(a)));
        assert!(
            compared * 10 > covered.count() * 8,
            "{compared} in {source}"
        );
    }
}

#[test]
fn demangled_names_are_those_of_cxxfilt() {
    let library = support::run("g++", ["-print-file-name=libstdc++.so.6"]);
    let symbols = support::run("nm", ["-D", "--defined-only", library.trim()]);
    let field = |line: &str| line.split_whitespace().nth(2).map(str::to_owned);
    let mangled: Vec<String> = symbols
        .lines()
        .filter_map(field)
        .map(|name| name.split('@').next().unwrap().to_owned())
        .filter(|name| name.starts_with("_Z") && !name.starts_with("_ZT"))
        .collect();
    assert!(mangled.len() > 1000);
    let theirs = support::run_with_input("c++filt", [""; 0], &(mangled.join("\n") + "\n"));
    // The two expand abbreviations in different places, and space differently.
    let same = |text: &str| {
        let long = ["string", "ostream", "istream", "iostream"].map(|n| (format!("std::{n}"), n));
        let text = text.replace("std::char_traits<char>, std::allocator<char> ", "C ");
        let text = text.replace("std::char_traits<char> ", "C ");
        let text = long.iter().fold(text, |text, (short, name)| {
            text.replace(&format!("std::basic_{name}<char, C >"), short)
        });
        text.replace(' ', "")
    };
    let mut wrong = Vec::new();
    for (mangled, theirs) in mangled.iter().zip(theirs.lines()) {
        let ours = dwell_symbols::demangle(mangled);
        if same(&ours) != same(theirs) {
            wrong.push(format!("{mangled}\n  {ours}\n  {theirs}"));
        }
    }
    let few = &wrong[..wrong.len().min(3)];
    assert!(
        wrong.len() * 50 < mangled.len(),
        "{} of {}:\n{}",
        wrong.len(),
        mangled.len(),
        few.join("\n")
    );
}
