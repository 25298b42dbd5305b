//! The file that a page is: its code is plain modules in `ui/`, put one behind the other into one script; what it shows is a
//! JSON text, compressed, in the file itself.
use flate2::Compression;
use flate2::write::GzEncoder;
use serde::Serialize;
use std::io::{self, Write};

const STYLE: &str = include_str!("../../ui/style.css");
const FRAME: &str = include_str!("../../ui/page.html");

/// A module of the page's code.
macro_rules! module {
    ($path:literal) => {
        include_str!(concat!("../../ui/", $path))
    };
}

/// The modules of a recording's page, each after those that it needs.
pub(super) const RECORDING: [&str; 26] = [
    module!("model/text.js"),
    module!("model/data.js"),
    module!("model/choice.js"),
    module!("model/tree.js"),
    module!("model/functions.js"),
    module!("model/calltree.js"),
    module!("model/lanes.js"),
    module!("model/selection.js"),
    module!("model/evidence.js"),
    module!("model/sides.js"),
    module!("model/knobs.js"),
    module!("views/dom.js"),
    module!("views/part.js"),
    module!("views/boxes.js"),
    module!("views/overview.js"),
    module!("views/timeline.js"),
    module!("views/flame.js"),
    module!("views/calltree.js"),
    module!("views/functions.js"),
    module!("views/sides.js"),
    module!("views/wakers.js"),
    module!("views/locks.js"),
    module!("views/memory.js"),
    module!("views/whatif.js"),
    module!("views/shell.js"),
    module!("main.js"),
];

/// The modules of a comparison's page.
pub(super) const COMPARISON: [&str; 10] = [
    module!("model/text.js"),
    module!("model/data.js"),
    module!("model/choice.js"),
    module!("model/tree.js"),
    module!("model/changes.js"),
    module!("views/dom.js"),
    module!("views/boxes.js"),
    module!("views/changes.js"),
    module!("views/shell.js"),
    module!("compare.js"),
];

/// Writes a page that shows `payload`.
pub(super) fn write(
    title: &str,
    payload: &impl Serialize,
    modules: &[&str],
    out: &mut impl Write,
) -> io::Result<()> {
    let json = serde_json::to_vec(payload).map_err(io::Error::other)?;
    let mut packed = GzEncoder::new(Vec::new(), Compression::best());
    packed.write_all(&json)?;
    let data = encode(&packed.finish()?);
    let (title, script) = (escaped(title), script(modules));
    let mut rest = FRAME;
    for (mark, text) in [
        ("@TITLE@", title.as_str()),
        ("@STYLE@", STYLE),
        ("@DATA@", &data),
        ("@SCRIPT@", &script),
    ] {
        let (before, after) = rest.split_once(mark).expect("the frame has every mark");
        out.write_all(before.as_bytes())?;
        out.write_all(text.as_bytes())?;
        rest = after;
    }
    out.write_all(rest.as_bytes())
}

/// All modules as one script: imports are gone, since everything is in one place.
fn script(modules: &[&str]) -> String {
    let mut script = String::new();
    for line in modules.iter().flat_map(|module| module.lines()) {
        if !line.starts_with("import ") {
            script.push_str(line.strip_prefix("export ").unwrap_or(line));
            script.push('\n');
        }
    }
    script
}

fn encode(bytes: &[u8]) -> String {
    use base64::Engine;
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_are_one_script_without_imports() {
        for modules in [&RECORDING[..], &COMPARISON[..]] {
            let script = script(modules);
            for line in script.lines() {
                assert!(
                    !line.starts_with("import ") && !line.starts_with("export "),
                    "{line}"
                );
            }
            // What ends a script's element must not be in it.
            assert!(!script.contains("</script"));
        }
    }

    #[test]
    fn every_module_has_a_page() {
        let of_folder = |folder: &str| {
            let path = format!("{}/ui/{folder}", env!("CARGO_MANIFEST_DIR"));
            std::fs::read_dir(path).expect("a folder").count()
        };
        let mut modules: Vec<&str> = RECORDING.iter().chain(&COMPARISON).copied().collect();
        modules.sort_unstable();
        modules.dedup();
        assert_eq!(modules.len(), of_folder("model") + of_folder("views") + 2);
    }
}
