//! A merged file that stands in the stock program's place gives way to it when it should, and only then.
mod common;

use common::{Folder, compile, merge_with};
use dwell_booster::{Options, StandIn, is_merged};
use std::ffi::CString;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
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
    let output = command.output().expect("it runs");
    assert_eq!(output.status.code(), Some(3));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let (file, rest) = text.trim().split_once(' ').expect("two words");
    (file.to_owned(), rest.to_owned())
}

#[test]
fn gives_way_without_its_guard_and_under_variables() {
    let folder = Folder::new("stand-in");
    fs::write(folder.file("prog.c"), PROGRAM).expect("written");
    fs::write(folder.file("a.c"), "int answer(void) { return 3; }").expect("written");
    compile(&folder, "gcc -shared -fPIC -o liba.so a.c");
    compile(&folder, "gcc -o prog prog.c liba.so -Wl,-rpath,$ORIGIN");
    let (stock, guard) = (folder.file("prog"), folder.file("guard"));
    let c_string = |path: &Path| CString::new(path.as_os_str().as_bytes()).expect("no zero");
    let options = Options {
        stand_in: Some(StandIn {
            guard: c_string(&guard),
            stock: c_string(&stock),
        }),
        ..Options::default()
    };
    let (merged, built) = merge_with(&folder, &stock, &options).expect("it can be merged");
    assert!(is_merged(&built.bytes));
    assert!(!is_merged(&fs::read(&stock).expect("there")));
    let as_it_is = |path: &Path| path.to_str().expect("UTF-8").to_owned();
    let said = format!("{} x", merged.display());
    let ran = |file: &Path| (as_it_is(file), said.clone());

    fs::write(&guard, "").expect("written");
    assert_eq!(run(&merged, &[]), ran(&merged));
    assert_eq!(run(&merged, &[("LD_BIND_NOW", "1")]), ran(&merged));
    for variable in ["LD_PRELOAD", "LD_AUDIT", "LD_LIBRARY_PATH"] {
        // Libraries of that name change nothing, but are named.
        let value = if variable == "LD_AUDIT" {
            ""
        } else {
            "libm.so.6"
        };
        assert_eq!(
            run(&merged, &[(variable, value)]),
            ran(&stock),
            "{variable}"
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
