//! Functions.
use crate::objects::{Heap, object};
use crate::scope::{LONGEST_NAME, Named};
use dwell_maps::Memory;

/// A function of JavaScript.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Its name as in the source; of one without, that of what it was assigned to, where there is such.
    pub name: Option<String>,
    /// The script that it is defined in: a path, or as `node:fs`.
    pub file: Option<String>,
    /// The line where it is defined, from 1 on.
    pub line: Option<u32>,
}

impl Function {
    /// How much memory its names take, bytes.
    pub fn bytes(&self) -> usize {
        let length = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        length(&self.name) + length(&self.file)
    }

    /// What it is called, also where it has no name.
    pub fn called(&self) -> &str {
        self.name.as_deref().unwrap_or("(anonymous)")
    }
}

/// The longest name of a script that is read, characters.
const LONGEST_PATH: u32 = 4096;

/// Where a function is defined.
pub(crate) struct Defined {
    pub(crate) named: Named,
    pub(crate) script: Option<u64>,
}

impl<M: Memory> Heap<'_, M> {
    /// What an object tells that functions made of the same text share.
    pub(crate) fn defined(&self, shared: u64) -> Option<Defined> {
        let layout = self.layout;
        let name = self.object_at(shared, layout.shared_name)?;
        let named = if self.is_text(name) {
            let name = self.text(name, LONGEST_NAME);
            let name = name.filter(|name| !name.is_empty());
            Named { name, start: None }
        } else if self.type_of(name) == Some(layout.scope_type) {
            self.named(name)?
        } else {
            Named::default()
        };
        let script = self.object_at(shared, layout.shared_script);
        let script = script.filter(|script| self.type_of(*script) == Some(layout.script_type));
        Some(Defined { named, script })
    }

    /// What a script is called.
    pub(crate) fn script_name(&self, script: u64) -> Option<String> {
        let name = object(self.field(script, self.layout.script_name)?)?;
        let name = self.text(name, LONGEST_PATH)?;
        // Modules are called by their addresses.
        Some(match name.strip_prefix("file://") {
            Some(path) => path.to_owned(),
            None => name,
        })
    }
}
