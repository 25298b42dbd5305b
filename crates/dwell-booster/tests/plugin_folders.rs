//! A library that loads others from a folder that only it names: merged, it would no longer find them.
mod common;

use common::{Folder, at_level, compile, inputs, merge_with, same};
use dwell_booster::{Options, Refusal, plugin_folders};
use std::fs;

#[test]
fn a_library_with_plugins_of_its_own_stays() {
    let folder = Folder::new("own-plugins");
    fs::create_dir(folder.file("own")).expect("made");
    let write = |name: &str, text: &str| fs::write(folder.file(name), text).expect("written");
    write("plugin.c", "int number(void) { return 7; }\n");
    write(
        "lib.c",
        "#include <dlfcn.h>\n\
         int asked(void) {\n\
             void *plugin = dlopen(\"libplugin.so\", RTLD_NOW);\n\
             return plugin ? ((int (*)(void))dlsym(plugin, \"number\"))() : -1;\n\
         }\n",
    );
    write(
        "prog.c",
        "#include <stdio.h>\nint asked(void);\nint main(void) { printf(\"%d\\n\", asked()); return 0; }\n",
    );
    compile(&folder, "gcc -shared -fPIC -o own/libplugin.so plugin.c");
    compile(
        &folder,
        "gcc -shared -fPIC -o liblib.so lib.c -Wl,-rpath,$ORIGIN/own",
    );
    compile(
        &folder,
        "gcc -o prog prog.c -L. -llib -Wl,-rpath,$ORIGIN -Wl,--enable-new-dtags",
    );
    let program = folder.file("prog");
    let named = plugin_folders(&inputs(&program));
    let library = folder.file("liblib.so").to_str().expect("UTF-8").to_owned();
    let own = folder.file("own").to_str().expect("UTF-8").to_owned();
    assert_eq!(named, [(library.clone(), vec![own])]);
    match merge_with(&folder, &program, &at_level(true)) {
        Err(Refusal::Nothing { .. }) => {}
        other => panic!("it stays, and nothing else can be merged: {other:?}"),
    }
    // Without a plugin there is nothing that could no longer be found.
    fs::remove_file(folder.file("own/libplugin.so")).expect("removed");
    let options = Options {
        no_plugins: [library].into(),
        ..at_level(true)
    };
    let (merged, built) = merge_with(&folder, &program, &options).expect("it can be merged");
    assert_eq!(built.merged, ["liblib.so"]);
    let output = same(&program, &merged, &[]);
    assert_eq!(output.stdout, b"-1\n");
}
