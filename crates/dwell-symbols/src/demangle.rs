//! Mangled names to the names people wrote.
use std::collections::HashMap;
use std::fmt::{self, Write};

/// Longest demangled name, bytes. Mangled names can refer back to their own parts, so that a
/// short hostile one describes gigabytes; the longest real ones are some tens of kilobytes.
const MAX_DEMANGLED: usize = 1 << 20;

/// The name as people wrote it: C++ with its parameters, Rust (legacy and v0) without the hash.
/// Any other name comes back as it is.
pub fn demangle(mangled: &str) -> String {
    rust(mangled)
        .or_else(|| cpp(mangled))
        .unwrap_or_else(|| mangled.to_owned())
}

/// Demangled names by their mangled ones: the addresses of one module share few functions.
#[derive(Default)]
pub(crate) struct Demangled(HashMap<String, String>);

impl Demangled {
    /// As [`demangle`].
    pub(crate) fn get(&mut self, mangled: &str) -> String {
        if let Some(known) = self.0.get(mangled) {
            return known.clone();
        }
        let name = demangle(mangled);
        self.0.insert(mangled.to_owned(), name.clone());
        name
    }
}

/// True for a name in one of the two mangling schemes.
pub(crate) fn is_mangled(name: &str) -> bool {
    name.starts_with("_Z") || name.starts_with("_R")
}

fn rust(mangled: &str) -> Option<String> {
    let symbol = rustc_demangle::try_demangle(mangled).ok()?;
    let mut out = Limited::default();
    write!(out, "{symbol:#}").ok()?;
    Some(out.text)
}

fn cpp(mangled: &str) -> Option<String> {
    if !mangled.starts_with("_Z") {
        return None;
    }
    let symbol = cpp_demangle::Symbol::new(mangled).ok()?;
    let mut out = Limited::default();
    symbol
        .structured_demangle(&mut out, &cpp_demangle::DemangleOptions::default())
        .ok()?;
    Some(without_empty_packs(out.text))
}

/// Empty parameter packs come out of the demangler as an argument without a type.
fn without_empty_packs(name: String) -> String {
    let mut name = if name.contains(", >") {
        name.replace(", >", ">")
    } else {
        name
    };
    for qualifier in ["&&", "&", "const&", " const&"] {
        for (before, after) in [("(", "("), (", ", "")] {
            if let Some(rest) = name.strip_suffix(&format!("{before}{qualifier})")) {
                name = format!("{rest}{after})");
            }
        }
    }
    name
}

/// A string that refuses to grow past [`MAX_DEMANGLED`].
#[derive(Default)]
struct Limited {
    text: String,
}

impl Write for Limited {
    fn write_str(&mut self, s: &str) -> fmt::Result {
        if self.text.len() + s.len() > MAX_DEMANGLED {
            return Err(fmt::Error);
        }
        self.text.push_str(s);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_people_wrote() {
        let cases = [
            (
                "_ZN4llvm9StringRefC1EPKc",
                "llvm::StringRef::StringRef(char const*)",
            ),
            (
                "_ZN5space3fooERKiPNS_3BarIjEE.part.0",
                "space::foo(int const&, space::Bar<unsigned int>*) [clone .part.0]",
            ),
            ("_Z4makeI1AJEEvDpOT0_", "void make<A>()"),
            ("_Z4makeI1AJEEvT_DpRKT0_", "void make<A>(A)"),
            ("_Z4takeRFvRiE", "take(void (&)(int&))"),
            (
                "_ZN4core3fmt9Formatter3pad17h0123456789abcdefE",
                "core::fmt::Formatter::pad",
            ),
            ("_RNvNtCs1234_7mycrate3foo3bar", "mycrate::foo::bar"),
            ("main", "main"),
            ("_Z", "_Z"),
            ("_ZN", "_ZN"),
            ("_R", "_R"),
            ("", ""),
        ];
        for (mangled, name) in cases {
            assert_eq!(demangle(mangled), name);
        }
    }

    #[test]
    fn a_name_that_unfolds_without_end_stays_as_it_is() {
        // Each substitution holds the one before it twice.
        let mut bomb = String::from("_Z1f1aIiiE");
        for i in 0..60 {
            let last = if i == 0 {
                "S_".into()
            } else {
                format!("S{}_", base36(i - 1))
            };
            bomb.push_str(&format!("1aI{last}{last}E"));
        }
        let name = demangle(&bomb);
        assert!(name.len() <= MAX_DEMANGLED, "{} bytes", name.len());
    }

    fn base36(n: usize) -> String {
        let digit = |n: usize| char::from(b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"[n % 36]);
        if n < 36 {
            digit(n).into()
        } else {
            format!("{}{}", base36(n / 36), digit(n))
        }
    }
}
