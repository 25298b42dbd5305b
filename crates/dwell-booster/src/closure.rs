//! A program and everything it needs, in the loader's order.
use crate::module::{Dynamic, Module, Relocation, relocations};
use crate::search::{Searcher, own_folders};
use crate::{Function, Inputs, LoaderCache, Refusal};
use dwell_elf::{LOADER_FOLDERS, Symbol};
use std::collections::{HashMap, HashSet};

/// The program first, then its libraries, breadth first: the order in which symbols are looked up.
#[derive(Debug)]
pub(crate) struct Closure<'data> {
    pub modules: Vec<Module<'data>>,
    /// Which modules each one needs, in the order it names them.
    pub needs: Vec<Vec<usize>>,
    /// Each module's relocations, or what is wrong with them.
    relocations: Vec<Result<Vec<Relocation>, &'static str>>,
    /// Functions that debug files name, by the path of the module.
    named: &'data HashMap<String, Vec<Function>>,
}

/// More libraries than this are refused; a desktop program has some 150.
const MAX_MODULES: usize = 1024;

/// Finds the libraries a program needs and asks `load` for their bytes, path by path, until one is
/// given; `None` says that there is no such file.
pub fn collect<F>(program: &str, data: Vec<u8>, cache: &LoaderCache, mut load: F) -> Inputs
where
    F: FnMut(&str) -> Option<Vec<u8>>,
{
    let mut inputs = Inputs {
        program: program.to_owned(),
        files: vec![(program.to_owned(), data)],
        ..Inputs::default()
    };
    // Parents, so that DT_RPATH can be followed upward.
    let mut parents: Vec<Option<usize>> = vec![None];
    let mut dynamics: Vec<Dynamic> = Vec::new();
    let mut at = 0;
    while at < inputs.files.len() && inputs.files.len() < MAX_MODULES {
        let (path, data) = &inputs.files[at];
        dynamics.push(Module::parse(path, data).map_or_else(|_| Dynamic::default(), |m| m.dynamic));
        let wanted = wanted(&inputs, &dynamics, &parents, at, cache);
        for (name, candidates) in wanted {
            if inputs.found.contains_key(&name) {
                continue;
            }
            let known = |path: &String| inputs.files.iter().position(|(p, _)| p == path);
            let seen = candidates.iter().find_map(known);
            let mut fresh = || candidates.iter().find_map(|p| Some((p.clone(), load(p)?)));
            if let Some(index) = seen {
                inputs.found.insert(name, index);
            } else if let Some((path, bytes)) = fresh() {
                inputs.found.insert(name, inputs.files.len());
                inputs.files.push((path, bytes));
                parents.push(Some(at));
            }
        }
        at += 1;
    }
    inputs
}

/// What a file needs, each with the paths to try.
fn wanted(
    inputs: &Inputs,
    dynamics: &[Dynamic],
    parents: &[Option<usize>],
    at: usize,
    cache: &LoaderCache,
) -> Vec<(String, Vec<String>)> {
    let upward = std::iter::successors(Some(at), |&index| parents[index]);
    let chain: Vec<Searcher<'_>> = upward
        .map(|index| Searcher {
            path: &inputs.files[index].0,
            dynamic: &dynamics[index],
        })
        .collect();
    let own = own_folders(&chain);
    let needed = dynamics[at].needed.iter();
    needed
        .map(|name| (name.clone(), candidates(name, &own, cache)))
        .collect()
}

fn candidates(name: &str, own: &[String], cache: &LoaderCache) -> Vec<String> {
    if name.contains('/') {
        return vec![name.to_owned()];
    }
    let in_folder = |folder: &str| format!("{}/{name}", folder.trim_end_matches('/'));
    let mut paths: Vec<String> = own.iter().map(|f| in_folder(f)).collect();
    paths.extend(cache.path(name).map(str::to_owned));
    paths.extend(LOADER_FOLDERS.iter().map(|f| in_folder(f)));
    paths
}

impl<'data> Closure<'data> {
    /// Parses everything, and orders it.
    pub(crate) fn of(inputs: &'data Inputs) -> Result<Self, Refusal> {
        let mut modules: Vec<Module<'data>> = Vec::new();
        for (path, data) in &inputs.files {
            modules.push(Module::parse(path, data)?);
        }
        let mut needs = Vec::new();
        for module in &modules {
            needs.push(needs_of(module, &modules, inputs)?);
        }
        let relocations = modules.iter().map(relocations).collect();
        Ok(Closure {
            modules,
            needs,
            relocations,
            named: &inputs.named,
        })
    }

    /// The functions of a module that it or its debug file names; aliases, and what both know, come more than once.
    pub(crate) fn functions(&self, index: usize) -> impl Iterator<Item = Symbol<'data>> {
        let module = &self.modules[index];
        let debug = self.named.get(&module.path).into_iter().flatten();
        let debug = debug.map(|f| Symbol {
            address: f.address,
            size: f.size,
            name: &f.name,
            indirect: f.indirect,
        });
        module.elf.symbols().chain(debug)
    }

    /// All relocations of a module, in the loader's order.
    pub(crate) fn relocations(&self, index: usize) -> Result<&[Relocation], Refusal> {
        let found = self.relocations[index].as_deref();
        found.map_err(|why| Refusal::damaged(&self.modules[index].path, why))
    }

    /// The order in which the loader calls constructors: what a module needs comes before it.
    ///
    /// As glibc 2.35 and later sort: depth first, beginning at the last module.
    pub(crate) fn init_order(&self) -> Vec<usize> {
        let mut order = Vec::new();
        let mut seen = HashSet::new();
        for start in (0..self.modules.len()).rev() {
            self.visit(start, &mut seen, &mut order);
        }
        order
    }

    fn visit(&self, start: usize, seen: &mut HashSet<usize>, order: &mut Vec<usize>) {
        if !seen.insert(start) {
            return;
        }
        // (module, how many of its needs were visited): the recursion as a list.
        let mut path = vec![(start, 0)];
        while let Some((module, next)) = path.pop() {
            match self.needs[module].get(next) {
                Some(&need) => {
                    path.push((module, next + 1));
                    if seen.insert(need) {
                        path.push((need, 0));
                    }
                }
                None => order.push(module),
            }
        }
    }
}

fn needs_of(
    module: &Module<'_>,
    modules: &[Module<'_>],
    inputs: &Inputs,
) -> Result<Vec<usize>, Refusal> {
    let find = |name: &String| {
        let by_name = inputs.found.get(name).copied();
        by_name.or_else(|| modules.iter().position(|m| m.name == *name))
    };
    let needed = module.dynamic.needed.iter();
    needed
        .map(|name| {
            find(name).ok_or_else(|| Refusal::Missing {
                name: name.clone(),
                needed_by: module.path.clone(),
            })
        })
        .collect()
}
