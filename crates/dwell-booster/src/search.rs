//! Where a needed library is looked for: the loader's order.
use crate::module::Dynamic;

/// A module in the chain of those that need each other, as far as searching goes.
#[derive(Clone, Debug)]
pub(crate) struct Searcher<'a> {
    pub path: &'a str,
    pub dynamic: &'a Dynamic,
}

/// The folders named by the modules themselves: `DT_RPATH` of the needing module and of those that
/// loaded it, unless the needing one has a `DT_RUNPATH`, which then counts alone.
pub(crate) fn own_folders(chain: &[Searcher<'_>]) -> Vec<String> {
    let Some(needer) = chain.first() else {
        return Vec::new();
    };
    if let Some(runpath) = &needer.dynamic.runpath {
        return expand(runpath, needer.path);
    }
    let rpaths = chain.iter().filter(|s| s.dynamic.runpath.is_none());
    rpaths
        .filter_map(|s| Some(expand(s.dynamic.rpath.as_deref()?, s.path)))
        .flatten()
        .collect()
}

/// All folders that a module names, for itself or for what it loads.
pub(crate) fn named_folders(path: &str, dynamic: &Dynamic) -> Vec<String> {
    let lists = [&dynamic.runpath, &dynamic.rpath];
    let lists = lists.into_iter().flatten();
    lists.flat_map(|list| expand(list, path)).collect()
}

/// A list of folders with the loader's own words replaced.
fn expand(list: &str, path: &str) -> Vec<String> {
    let folder = path.rsplit_once('/').map_or(".", |(folder, _)| folder);
    list.split(':')
        .filter(|f| !f.is_empty())
        .map(|f| {
            f.replace("${ORIGIN}", folder)
                .replace("$ORIGIN", folder)
                .replace("${LIB}", "lib/x86_64-linux-gnu")
                .replace("$LIB", "lib/x86_64-linux-gnu")
                .replace("${PLATFORM}", "x86_64")
                .replace("$PLATFORM", "x86_64")
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runpath_counts_alone_and_rpath_is_inherited() {
        let with = |rpath: Option<&str>, runpath: Option<&str>| Dynamic {
            rpath: rpath.map(str::to_owned),
            runpath: runpath.map(str::to_owned),
            ..Dynamic::default()
        };
        let program = with(Some("/opt/lib:$ORIGIN/../lib"), None);
        let library = with(None, None);
        let other = with(Some("/ignored"), Some("${ORIGIN}/x"));
        let program = Searcher {
            path: "/opt/bin/p",
            dynamic: &program,
        };
        let library = Searcher {
            path: "/opt/lib/l.so",
            dynamic: &library,
        };
        let other = Searcher {
            path: "/opt/lib/o.so",
            dynamic: &other,
        };
        assert_eq!(
            own_folders(&[library, program.clone()]),
            ["/opt/lib", "/opt/bin/../lib"]
        );
        assert_eq!(own_folders(&[other, program]), ["/opt/lib/x"]);
        assert!(own_folders(&[]).is_empty());
    }
}
