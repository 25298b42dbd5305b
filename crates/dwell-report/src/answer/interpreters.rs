//! Interpreters whose functions are not told: where a program is interpreted, stacks of the interpreter's own functions
//! say little of it.
use dwell_analysis::Analysis;
use dwell_analysis::names::FunctionId;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

pub(super) const PYTHON: &str = "Python";

/// Functions that execute what is interpreted, by what it is written in. Where CPython's functions are told, its own is not in
/// their stacks.
const EXECUTE: [(&str, &str); 10] = [
    ("_PyEval_EvalFrameDefault", PYTHON),
    ("PyEval_EvalFrameEx", PYTHON), // until 3.5
    ("Perl_runops_standard", "Perl"),
    ("rb_vm_exec", "Ruby"),
    ("vm_exec", "Ruby"), // until 3.0
    ("execute_ex", "PHP"),
    ("luaV_execute", "Lua"),
    ("lua_pcallk", "Lua"), // of a Lua without symbols
    ("lua_pcall", "Lua"),  // until 5.1, and LuaJIT
    ("Rf_eval", "R"),
];

/// Thread time in interpreters whose functions are not told, by language, ns.
pub(super) fn untold(analysis: &Analysis<'_>) -> BTreeMap<String, u64> {
    let names = &analysis.names;
    let language = |name: &str| EXECUTE.iter().find(|(function, _)| *function == name);
    let functions = (0..).zip(&names.functions);
    let executing: FxHashMap<FunctionId, &str> = functions
        .filter_map(|(id, function)| Some((id, language(&function.name)?.1)))
        .collect();
    let mut untold = BTreeMap::new();
    if executing.is_empty() {
        return untold;
    }
    let of_path: Vec<Option<&str>> = (0..names.path_count() as u32)
        .map(|path| {
            names
                .path(path)
                .iter()
                .find_map(|f| executing.get(f).copied())
        })
        .collect();
    for entry in &analysis.profile.entries {
        if let Some(language) = of_path[names.path_of(entry.stack) as usize] {
            let ns: &mut u64 = untold.entry(language.to_owned()).or_default();
            *ns = ns.saturating_add(entry.weight_ns);
        }
    }
    // What a Python does until it has been found is not told, and soon past.
    if tells_python(analysis) {
        untold.remove(PYTHON);
    }
    untold
}

/// Whether some of Python's functions are told.
fn tells_python(analysis: &Analysis<'_>) -> bool {
    let mut files = analysis
        .tables
        .symbols
        .iter()
        .filter_map(|s| s.file.as_ref());
    files.any(|file| file.ends_with(".py") || file.starts_with("<frozen "))
}
