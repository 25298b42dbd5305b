//! Where a program's time went: what the layout of its hot functions goes by.
use std::collections::BTreeMap;

/// A place in the code of a module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// Index into [`Profile::modules`].
    pub module: usize,
    /// Stated address.
    pub address: u64,
}

/// A file that was seen running.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProfiledModule {
    /// Its path then.
    pub path: String,
    /// Its build id; empty when it has none.
    pub build_id: Vec<u8>,
}

/// Time on processors by place, and what called what.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Profile {
    /// All files of the places.
    pub modules: Vec<ProfiledModule>,
    /// Time by the place where it was spent, ns.
    pub samples: BTreeMap<Place, u64>,
    /// Time at a place (the second) while it was called from another one (the first), ns.
    pub calls: BTreeMap<(Place, Place), u64>,
}
