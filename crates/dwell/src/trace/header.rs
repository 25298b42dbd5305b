//! `-h` and `-G`: what a program needs whose static probes are declared in a provider file.
use dwell_script::provider::{self, ArgumentType, ProbeDeclaration, Provider, ProviderError};
use std::fmt::Write;
use std::path::Path;
use std::{fs, io};

/// `dwell/sdt.h`. Generated headers contain it, so that they need nothing installed.
const SDT: &str = include_str!("../../../../include/dwell/sdt.h");

/// Writes `dwell/sdt.h` below a folder, for compilers.
pub(crate) fn write(folder: &Path) -> io::Result<()> {
    let include = folder.join("dwell");
    fs::create_dir_all(&include)?;
    fs::write(include.join("sdt.h"), SDT)
}

/// The header that defines `PROVIDER_PROBE(…)` and `PROVIDER_PROBE_ENABLED()` for each probe that the
/// provider file `source` declares. It stands alone.
///
/// # Errors
/// The line of the provider file that cannot be read, and why.
pub fn make_header(source: &str) -> Result<String, ProviderError> {
    let providers = provider::parse(source)?;
    let names: Vec<&str> = providers.iter().map(|p| p.name.as_str()).collect();
    let guard = format!("DWELL_PROBES_{}_H", names.join("_").to_uppercase());
    let mut header = format!(
        "/* The probes of {}. Made by `dwell trace -h` from a provider file: change that. */\n\
         #ifndef {guard}\n#define {guard}\n\n{SDT}\n",
        names.join(", ")
    );
    for provider in &providers {
        for probe in &provider.probes {
            header.push_str(&macros(provider, probe));
        }
    }
    let _ = writeln!(header, "#endif /* {guard} */");
    Ok(header)
}

fn macros(provider: &Provider, probe: &ProbeDeclaration) -> String {
    let name = format!(
        "{}_{}",
        provider.name.to_uppercase(),
        probe.name.replace("__", "_").to_uppercase()
    );
    let types: Vec<&str> = probe.arguments.iter().map(|a| a.text.as_str()).collect();
    let parameters: Vec<String> = (1..=types.len()).map(|k| format!("arg{k}")).collect();
    let values = probe.arguments.iter().zip(&parameters);
    let values: String = values.map(|(t, p)| format!(", {}", value(t, p))).collect();
    let (provider, probe) = (&provider.name, &probe.name);
    format!(
        "/* {provider}:::{}({}) */\n\
         #define {name}({}) DWELL_PROBE({provider}, {probe}{values})\n\
         #define {name}_ENABLED() DWELL_PROBE_ENABLED({provider}, {probe})\n\n",
        probe.replace("__", "-"),
        types.join(", "),
        parameters.join(", "),
    )
}

/// The argument as it is declared: the same type at every site. What only the provider file may know, a
/// typedef, is left as the program passes it.
fn value(declared: &ArgumentType, parameter: &str) -> String {
    let fixed = FIXED_WIDTH.iter().find(|(name, _)| *name == declared.text);
    if declared.is_pointer {
        format!("(const volatile void *)({parameter})")
    } else if let Some((_, fixed)) = fixed {
        format!("({fixed})({parameter})")
    } else if declared.is_built_in {
        format!("({})({parameter})", declared.text)
    } else {
        parameter.to_owned()
    }
}

/// Types that D knows of itself, and the names compilers have for them without any header.
const FIXED_WIDTH: [(&str, &str); 12] = [
    ("int8_t", "__INT8_TYPE__"),
    ("int16_t", "__INT16_TYPE__"),
    ("int32_t", "__INT32_TYPE__"),
    ("int64_t", "__INT64_TYPE__"),
    ("uint8_t", "__UINT8_TYPE__"),
    ("uint16_t", "__UINT16_TYPE__"),
    ("uint32_t", "__UINT32_TYPE__"),
    ("uint64_t", "__UINT64_TYPE__"),
    ("intptr_t", "__INTPTR_TYPE__"),
    ("uintptr_t", "__UINTPTR_TYPE__"),
    ("size_t", "__SIZE_TYPE__"),
    ("ptrdiff_t", "__PTRDIFF_TYPE__"),
];

/// An object file with nothing in it, which `-G` gives to the linker: the probes need no link step, but
/// makefiles that have one go on working.
///
/// # Errors
/// The line of the provider file that cannot be read, and why.
pub fn make_object(source: &str) -> Result<Vec<u8>, ProviderError> {
    provider::parse(source)?;
    // Without .note.GNU-stack the linker takes an executable stack to be wanted.
    const NAMES: &[u8; 27] = b"\0.note.GNU-stack\0.shstrtab\0";
    const HEADER: u64 = 64;
    const SECTION: u64 = 64;
    let sections_at = (HEADER + NAMES.len() as u64).next_multiple_of(8);
    // Class 64, little-endian; ET_REL for x86-64; no program headers; three sections, the last their names.
    let mut file = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x01\0\x3e\0\x01\0\0\0".to_vec();
    file.extend([0, 0, sections_at].map(u64::to_le_bytes).concat());
    file.extend(0u32.to_le_bytes());
    file.extend(
        [HEADER as u16, 0, 0, SECTION as u16, 3, 2]
            .map(u16::to_le_bytes)
            .concat(),
    );
    file.extend(NAMES);
    file.resize(sections_at as usize, 0);
    const PROGBITS: u32 = 1;
    const STRTAB: u32 = 3;
    for (name, kind, size) in [(0, 0, 0), (1, PROGBITS, 0), (17, STRTAB, NAMES.len())] {
        let place = if kind == 0 { 0 } else { HEADER };
        file.extend([name, kind].map(u32::to_le_bytes).concat());
        file.extend([0, 0, place, size as u64].map(u64::to_le_bytes).concat());
        file.extend([0u32, 0].map(u32::to_le_bytes).concat());
        file.extend([u64::from(kind != 0), 0].map(u64::to_le_bytes).concat());
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use dwell_elf::ElfFile;
    use dwell_elf::static_probes::ArgumentKind::{self, Float, Pointer, Signed, Unsigned};
    use std::collections::BTreeSet;
    use std::path::{Path, PathBuf};
    use std::process::Command;

    const SOURCE: &str = "#pragma D attributes Evolving/Evolving/Common provider shop provider\n\
        provider shop {\n\
        \tprobe open();\n\
        \tprobe order(int, char *);\n\
        \tprobe order__done(int id, uint8_t code, double price);\n\
        \tprobe kinds(unsigned char c, int64_t l, struct order *o, string s, float f, my_t m);\n\
        };\n\
        provider other { probe one__more__thing(long n); };\n";

    /// Calls every macro, in the ways C allows.
    const PROGRAM: &str = r#"
        #include "probes.h"
        #include "probes.h"
        typedef short my_t;
        struct order { int id; };
        int main(int argc, char **argv) {
            struct order order = { argc };
            if (argc)
                SHOP_OPEN();
            else
                SHOP_ORDER(argc, argv[0]);
            if (SHOP_ORDER_DONE_ENABLED())
                SHOP_ORDER_DONE(order.id, 300, 2);
            SHOP_KINDS(argc, argc, &order, "text", 1.5, (my_t)-3);
            OTHER_ONE_MORE_THING(argc);
            return SHOP_OPEN_ENABLED();
        }
"#;

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("dwell-{name}-{}", std::process::id()));
            std::fs::create_dir_all(&path).expect("a folder");
            Folder(path)
        }

        fn write(&self, name: &str, bytes: impl AsRef<[u8]>) {
            std::fs::write(self.0.join(name), bytes).expect("write");
        }

        /// Runs a tool in the folder; none when it is not installed.
        fn run(&self, words: &[&str]) -> Option<String> {
            let mut command = Command::new(words[0]);
            let output = command
                .args(&words[1..])
                .current_dir(&self.0)
                .output()
                .ok()?;
            let errors = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{words:?}: {errors}");
            assert_eq!(errors, "", "{words:?}");
            Some(String::from_utf8_lossy(&output.stdout).into_owned())
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    /// Name, and kind and size of each argument, of a program's probes.
    fn probes(program: &Path) -> Vec<(String, Vec<(ArgumentKind, u8)>)> {
        let data = std::fs::read(program).expect("the program");
        let found = ElfFile::parse(&data).expect("an ELF file").static_probes();
        assert_eq!(found.skipped, []);
        let probe = |p: &dwell_elf::static_probes::StaticProbe| {
            let arguments = p.arguments.iter().map(|a| a.as_ref().expect("readable"));
            (
                format!("{}:{}", p.provider, p.d_name()),
                arguments.map(|a| (a.kind, a.size)).collect(),
            )
        };
        let mut probes: Vec<_> = found.probes.iter().map(probe).collect();
        probes.sort_by(|a, b| a.0.cmp(&b.0));
        probes
    }

    #[test]
    fn a_program_with_the_header_and_the_object_has_the_probes() {
        let folder = Folder::new("header");
        folder.write("probes.h", make_header(SOURCE).expect("a header"));
        folder.write("probes.o", make_object(SOURCE).expect("an object file"));
        folder.write("program.c", PROGRAM);
        let strict = [
            "-Wall",
            "-Wextra",
            "-pedantic",
            "-Werror",
            "-O2",
            "-o",
            "program",
        ];
        let mut compiled = 0;
        for compiler in [
            ["gcc", "-std=c99", "-xc"],
            ["g++", "-std=c++11", "-xc++"],
            ["clang-19", "-std=c99", "-xc"],
            ["clang++-19", "-std=c++11", "-xc++"],
        ] {
            let files = ["program.c", "-xnone", "probes.o"];
            let Some(_) = folder.run(&[&compiler[..], &strict, &files].concat()) else {
                eprintln!("{} is not installed, left out", compiler[0]);
                continue;
            };
            let expected: [(&str, &[(ArgumentKind, u8)]); 5] = [
                ("other:one-more-thing", &[(Signed, 8)]),
                (
                    "shop:kinds",
                    &[
                        (Unsigned, 1),
                        (Signed, 8),
                        (Pointer, 8),
                        (Pointer, 8),
                        (Float, 4),
                        (Signed, 2),
                    ],
                ),
                ("shop:open", &[]),
                ("shop:order", &[(Signed, 4), (Pointer, 8)]),
                ("shop:order-done", &[(Signed, 4), (Unsigned, 1), (Float, 8)]),
            ];
            let expected = expected.map(|(name, kinds)| (name.to_owned(), kinds.to_vec()));
            assert_eq!(probes(&folder.0.join("program")), expected, "{compiler:?}");
            assert!(folder.run(&["./program"]).is_some());
            compiled += 1;
        }
        assert!(compiled >= 2, "gcc and g++ must be there");
    }

    /// `-G`'s file is one that binutils reads, with nothing in it.
    #[test]
    fn the_object_file_is_whole() {
        let folder = Folder::new("object");
        folder.write("empty.o", make_object(SOURCE).expect("an object file"));
        let read = folder
            .run(&["readelf", "-hSsW", "empty.o"])
            .expect("readelf");
        assert!(
            read.contains("REL (Relocatable file)") && read.contains("X86-64"),
            "{read}"
        );
        assert!(
            read.contains(".note.GNU-stack") && read.contains(".shstrtab"),
            "{read}"
        );
        assert!(make_object("provider p {").is_err());
    }

    /// The macros have the names that systemtap's dtrace gives them.
    #[test]
    fn macros_are_those_of_dtrace() {
        let folder = Folder::new("dtrace");
        folder.write("shop.d", SOURCE);
        let words = ["dtrace", "-h", "-s", "shop.d", "-o", "theirs.h"];
        if folder.run(&words).is_none() {
            eprintln!("dtrace (systemtap-sdt-dev) is not installed, left out");
            return;
        }
        let macros = |header: &str| -> BTreeSet<String> {
            let lines = header.lines().filter_map(|l| l.strip_prefix("#define "));
            let names = lines
                .filter_map(|l| l.split_once('('))
                .map(|(name, _)| name.to_owned());
            names
                .filter(|n| n.starts_with("SHOP_") || n.starts_with("OTHER_"))
                .collect()
        };
        let theirs = std::fs::read_to_string(folder.0.join("theirs.h")).expect("their header");
        let theirs = macros(&theirs);
        assert_eq!(theirs.len(), 10, "{theirs:?}");
        assert_eq!(macros(&make_header(SOURCE).expect("a header")), theirs);
    }

    /// The examples of `docs/static-probes.md`: each block that begins with the name of its file.
    fn documented() -> Vec<(String, String)> {
        let text = include_str!("../../../../docs/static-probes.md");
        let blocks = text.split("\n```").skip(1).step_by(2);
        let file = |block: &str| {
            let (_language, code) = block.split_once('\n')?;
            let (_, name) = code.lines().next()?.split_once("file: ")?;
            let name = name.split([' ', ',']).next()?;
            Some((name.to_owned(), code.to_owned()))
        };
        blocks.filter_map(file).collect()
    }

    #[test]
    fn the_documentation_compiles_and_has_its_probes() {
        let folder = Folder::new("documentation");
        let files = documented();
        for (name, code) in &files {
            folder.write(name, code);
        }
        let names: Vec<&str> = files.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["requests.c", "queue.cpp", "shop.d", "shop.c"]);
        folder.write("shop.h", make_header(&files[2].1).expect("a provider file"));
        folder.write("shop.o", make_object(&files[2].1).expect("a provider file"));
        let include = concat!("-I", env!("CARGO_MANIFEST_DIR"), "/../../include");
        let build = |compiler: &str, files: &[&str]| -> Vec<String> {
            let flags = [
                compiler, "-O2", "-Wall", "-Wextra", "-Werror", include, "-o", "program",
            ];
            folder.run(&[&flags, files].concat()).expect(compiler);
            folder.run(&["./program"]).expect("the program");
            let probes = probes(&folder.0.join("program"));
            let mut names: Vec<String> = probes.into_iter().map(|(name, _)| name).collect();
            names.dedup();
            names
        };
        assert_eq!(
            build("gcc", &["requests.c"]),
            ["server:request-done", "server:request-start"]
        );
        assert_eq!(build("g++", &["queue.cpp"]), ["queue:push", "queue:sum"]);
        assert_eq!(
            build("gcc", &["shop.c", "shop.o"]),
            ["shop:order", "shop:order-done"]
        );
    }
}
