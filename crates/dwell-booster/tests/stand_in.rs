//! A merged file that stands in the stock program's place gives way to it when it should, and only then.
mod common;

use common::{Folder, compile, inputs, merge_with, output, with_libc, with_loader};
use dwell_booster::{FileState, Options, Processor, Refusal, StandIn, is_merged};
use std::collections::HashMap;
use std::ffi::CString;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Prints the file that runs, its own name and its arguments.
const PROGRAM: &str = "#include <stdio.h>\n#include <unistd.h>\nint answer(void);\n\
    int main(int argc, char **argv) { char exe[4096]; long n = readlink(\"/proc/self/exe\", exe, 4095);\n\
    exe[n < 0 ? 0 : n] = 0; printf(\"%s %s %s\\n\", exe, argv[0], argc > 1 ? argv[1] : \"\"); return answer(); }\n";

/// The file that ran, and the rest of what it said.
fn run(program: &Path, variables: &[(&str, &str)]) -> (String, String) {
    let mut command = Command::new(program);
    // Cargo sets it.
    command.arg("x").env_remove("LD_LIBRARY_PATH");
    command.envs(variables.iter().copied());
    let output = output(&mut command);
    assert_eq!(output.status.code(), Some(3));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let (file, rest) = text.trim().split_once(' ').expect("two words");
    (file.to_owned(), rest.to_owned())
}

#[test]
fn gives_way_without_its_guard_and_under_variables() {
    gives_way(&Options::default(), "stand-in");
}

/// With the C library in the file it is looked at while the loader relocates: an auditor's loader would get no further.
#[test]
fn gives_way_with_the_c_library_in_it() {
    for (name, fixed) in [("libc", None), ("libc-fixed", Some(0x5555_5555_4000))] {
        let way = Options {
            fixed,
            ..with_libc()
        };
        gives_way(&way, &format!("stand-in-{name}"));
    }
    let merge_only = Options {
        direct: false,
        choices: None,
        ..with_libc()
    };
    gives_way(&merge_only, "stand-in-libc-0");
}

/// With the loader in the file it is looked at before the loader runs.
#[test]
fn gives_way_with_the_loader_in_it() {
    gives_way(&with_loader(), "stand-in-inside");
}

/// One that nobody put into the stock one's place has no guard.
#[test]
fn gives_way_to_variables_without_a_guard() {
    for (name, way) in [
        ("no-guard", Options::default()),
        ("no-guard-inside", with_loader()),
    ] {
        let folder = Folder::new(name);
        let stock = stock(&folder);
        let options = Options {
            stand_in: Some(StandIn {
                guard: None,
                stock: c_string(&stock),
            }),
            ..way.clone()
        };
        let (merged, _) = match merge_with(&folder, &stock, &options) {
            Err(why @ Refusal::Unsupported { .. }) if way.libc => return println!("{why}"),
            made => made.expect("it can be merged"),
        };
        let ran = |variables: &[(&str, &str)]| PathBuf::from(run(&merged, variables).0);
        assert_eq!(ran(&[]), merged);
        assert_eq!(ran(&[("LD_PRELOAD", "libm.so.6")]), stock);
    }
}

fn c_string(path: &Path) -> CString {
    CString::new(path.as_os_str().as_bytes()).expect("no zero")
}

/// The program, with a library of its own.
fn stock(folder: &Folder) -> PathBuf {
    fs::write(folder.file("prog.c"), PROGRAM).expect("written");
    fs::write(folder.file("a.c"), "int answer(void) { return 3; }").expect("written");
    compile(folder, "gcc -shared -fPIC -o liba.so a.c");
    compile(folder, "gcc -o prog prog.c liba.so -Wl,-rpath,$ORIGIN");
    folder.file("prog")
}

fn gives_way(way: &Options, name: &str) {
    let folder = Folder::new(name);
    let (stock, guard) = (stock(&folder), folder.file("guard"));
    let options = Options {
        stand_in: Some(StandIn {
            guard: Some(c_string(&guard)),
            stock: c_string(&stock),
        }),
        ..way.clone()
    };
    let (merged, built) = match merge_with(&folder, &stock, &options) {
        Err(why @ Refusal::Unsupported { .. }) if way.libc => return println!("{why}"),
        made => made.expect("it can be merged"),
    };
    assert!(is_merged(&built.bytes));
    assert!(!is_merged(&fs::read(&stock).expect("there")));
    let as_it_is = |path: &Path| path.to_str().expect("UTF-8").to_owned();
    let said = format!("{} x", merged.display());
    let ran = |file: &Path| (as_it_is(file), said.clone());

    fs::write(&guard, "").expect("written");
    assert_eq!(run(&merged, &[]), ran(&merged));
    assert_eq!(run(&merged, &[("LD_BIND_NOW", "1")]), ran(&merged));
    fs::write(
        folder.file("audit.c"),
        "unsigned la_version(unsigned v) { return v; }",
    )
    .expect("written");
    compile(&folder, "gcc -shared -fPIC -o audit.so audit.c");
    let auditor = as_it_is(&folder.file("audit.so"));
    // The libraries change nothing, but are named.
    for (variable, value) in [
        ("LD_PRELOAD", "libm.so.6"),
        ("LD_AUDIT", ""),
        ("LD_AUDIT", &auditor),
        ("LD_LIBRARY_PATH", "libm.so.6"),
    ] {
        assert_eq!(
            run(&merged, &[(variable, value)]),
            ran(&stock),
            "{variable}={value}"
        );
    }
    fs::remove_file(&guard).expect("removed");
    assert_eq!(run(&merged, &[]), ran(&stock));

    // It does not run itself again and again where the stock program's name leads to it.
    fs::rename(&stock, folder.file("old")).expect("renamed");
    fs::copy(&merged, &stock).expect("copied");
    let (file, rest) = run(&stock, &[]);
    assert_eq!(
        (file, rest),
        (as_it_is(&stock), format!("{} x", stock.display()))
    );
    // Better merged than not at all.
    fs::remove_file(&stock).expect("removed");
    assert_eq!(run(&merged, &[]), ran(&merged));
}

/// The kernel may start a file only where its arguments can be put right, and not by that file's own beginning.
#[test]
fn a_registered_file_has_the_loader_in_it_and_a_mark() {
    let folder = Folder::new("registered");
    let beside = stock(&folder);
    let link = format!(
        "gcc -o named prog.c liba.so -Wl,-rpath,{}",
        folder.0.display()
    );
    compile(&folder, &link);
    let state = FileState {
        device: 0,
        inode: 0,
        size: 0,
        changed: (0, 0),
    };
    let registered = |program: &Path, way: Options| {
        let paths = inputs(program).files.into_iter().map(|(path, _)| path);
        let states: HashMap<_, _> = paths.map(|path| (path, state)).collect();
        let stand_in = StandIn {
            guard: None,
            stock: c_string(program),
        };
        let options = Options {
            registered: Some(states),
            stand_in: Some(stand_in),
            ..way
        };
        merge_with(&folder, program, &options)
    };
    let named = folder.file("named");
    let (merged, built) = match registered(&named, with_loader()) {
        Err(why @ Refusal::Unsupported { .. }) => return println!("{why}"),
        made => made.expect("it can be merged"),
    };
    let stock = fs::read(&named).expect("there");
    assert_eq!(
        (&built.bytes[48..52], &stock[48..52]),
        (&b"dwel"[..], &[0; 4][..])
    );
    // Started itself it is as any other.
    let said = format!("{} x", merged.display());
    let name = |path: &Path| path.to_str().expect("UTF-8").to_owned();
    assert_eq!(run(&merged, &[]), (name(&merged), said.clone()));
    assert_eq!(
        run(&merged, &[("LD_PRELOAD", "libm.so.6")]),
        (name(&named), said)
    );

    let refused = |program: &Path, way: Options| {
        let refused = registered(program, way).expect_err("refused");
        refused.to_string()
    };
    assert!(refused(&named, with_libc()).contains("level 3"));
    assert!(refused(&named, Options::default()).contains("level 3"));
    assert!(refused(&beside, with_loader()).contains("$ORIGIN"));
}

/// Does what the C library chooses functions for; prints the file that runs.
const COPIES: &str = "#include <stdio.h>\n#include <string.h>\n#include <unistd.h>\n\
    int main(int argc, char **argv) { char exe[4096], copy[4096]; long n = readlink(\"/proc/self/exe\", exe, 4095);\n\
    exe[n < 0 ? 0 : n] = 0; memcpy(copy, exe, sizeof copy); printf(\"%s %s %zu\\n\", copy, argv[0], strlen(argv[1]));\n\
    return strchr(argv[1], 'x') ? 3 : 1; }\n";

/// Functions that libc chooses for the processor are called directly as long as it chooses the same. With another choice
/// nothing of the merged program runs.
#[test]
fn gives_way_where_libc_chooses_otherwise() {
    let folder = Folder::new("choices");
    fs::write(folder.file("prog.c"), COPIES).expect("written");
    compile(&folder, "gcc -O1 -fno-builtin -o prog prog.c");
    let stock = folder.file("prog");
    let (merged, built) = match merge_with(&folder, &stock, &with_libc()) {
        Err(why @ Refusal::Unsupported { .. }) => {
            return println!("not with this C library: {why}");
        }
        made => made.expect("it can be merged"),
    };
    // Two are left to the kernel: time and gettimeofday.
    assert!(built.bound > 20, "{}", built.bound);
    let calls = built.direct.expect("level 1").calls;
    assert!(calls.chosen < 20 && calls.direct > 1000, "{calls:?}");
    let name = |path: &Path| path.to_str().expect("UTF-8").to_owned();
    let tune = |what| [("GLIBC_TUNABLES", what)];
    let said = (name(&merged), format!("{} 1", merged.display()));
    assert_eq!(run(&merged, &[]), said);
    assert_eq!(run(&merged, &tune("glibc.malloc.check=0")), said);
    // Take away whatever was preferred.
    let less = tune(
        "glibc.cpu.hwcaps=-AVX2_Usable,-AVX2,-AVX512F,-AVX512VL,-AVX512BW,-ERMS,-FSRM,-AVX_Fast_Unaligned_Load,-SSE4_1",
    );
    assert_eq!(run(&merged, &less), (name(&stock), said.1.clone()));
    // Nothing is run that could call what the processor may lack.
    fs::remove_file(&stock).expect("removed");
    let mut command = Command::new(&merged);
    let output = output(command.arg("x").envs(less));
    assert_eq!(output.status.code(), Some(127));
    assert!(String::from_utf8_lossy(&output.stderr).contains("another processor"));
    assert_eq!(run(&merged, &[]), said);
}

const CACHE: &str = "#include <stdio.h>\n#include <unistd.h>\n\
    int main(void) { printf(\"%ld\\n\", sysconf(_SC_LEVEL2_CACHE_SIZE)); return 0; }\n";

/// What the program says of the second-level cache's size, when the loader is in it and was told `processor`.
fn cache_size(folder: &Folder, processor: Processor) -> Result<u64, Refusal> {
    let options = Options {
        processor: Some(processor),
        ..with_loader()
    };
    let (merged, built) = merge_with(folder, &folder.file("prog"), &options)?;
    let (of, all) = built.remembered.expect("the loader is in it");
    assert!(of + 1 >= all && of > 20, "{of} of {all}");
    let output = output(&mut Command::new(merged));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    Ok(text.trim().parse().expect("a number"))
}

/// The loader believes what is remembered as long as the processor is the one it was remembered of; else it asks.
#[test]
fn answers_are_remembered_for_one_processor() {
    let folder = Folder::new("answers");
    fs::write(folder.file("prog.c"), CACHE).expect("written");
    compile(&folder, "gcc -o prog prog.c");
    let real = with_loader().processor.expect("a processor");
    let size = match cache_size(&folder, real.clone()) {
        Err(why) => return println!("not with this C library: {why}"),
        Ok(size) => size,
    };
    let stock = Command::new(folder.file("prog")).output().expect("it runs");
    assert_eq!(
        String::from_utf8_lossy(&stock.stdout).trim(),
        size.to_string()
    );

    // Twice as large, as either maker's processors say it.
    let mut other = real;
    for answer in &mut other.answers {
        let [_, _, ecx, _] = &mut answer.registers;
        match answer.leaf {
            4 => *ecx = *ecx * 2 + 1,
            0x8000_0006 => *ecx = (*ecx >> 16) << 17 | *ecx & 0xffff,
            _ => {}
        }
    }
    assert_eq!(cache_size(&folder, other.clone()), Ok(2 * size));
    for leaf in [1, 7] {
        let mut moved = other.clone();
        let answer = moved
            .answers
            .iter_mut()
            .find(|a| a.leaf == leaf)
            .expect("a guard");
        answer.registers[2] ^= 1 << 30;
        assert_eq!(cache_size(&folder, moved), Ok(size), "leaf {leaf}");
    }
    // Another kernel that lets programs use less or more of it.
    other.enabled ^= 4;
    assert_eq!(cache_size(&folder, other), Ok(size), "XCR0");
}
