//! Names of Java methods.
use crate::layout::{Jvm, SourceFile};
use dwell_maps::Memory;

/// Longest part of a name that is believed, bytes.
const LONGEST: usize = 4096;

/// A Java method.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Method {
    /// Its class with packages, `java.util.HashMap`; empty for the JVM's own code.
    pub class: String,
    /// Its name.
    pub name: String,
    /// Its class' source file, without folders.
    pub file: Option<String>,
    /// The line that is executed, where that is known.
    pub line: Option<u32>,
}

impl Method {
    /// Code of the JVM itself.
    pub fn stub(name: &str) -> Self {
        Method {
            class: String::new(),
            name: format!("[{name}]"),
            file: None,
            line: None,
        }
    }

    /// `java.util.HashMap.merge`.
    pub fn full_name(&self) -> String {
        match self.class.as_str() {
            "" => self.name.clone(),
            class => format!("{class}.{}", self.name),
        }
    }
}

/// A class as Java writes it. Hidden ones, as of lambdas, have an address in their name, which differs from run to run.
fn shown_class(class: &str) -> String {
    let without_address = class.split_once("+0x").map_or(class, |(name, _)| name);
    without_address.replace('/', ".")
}

impl Jvm {
    /// The class of a method, by address.
    pub fn class_of(&self, memory: &impl Memory, method: u64) -> Option<u64> {
        let pool = self.pool(memory, self.constant_part(memory, method)?)?;
        memory.word(pool.checked_add(self.methods.pool_holder)?)
    }

    /// A method's `ConstMethod`.
    pub(crate) fn constant_part(&self, memory: &impl Memory, method: u64) -> Option<u64> {
        memory.word(method.checked_add(self.methods.constant.into())?)
    }

    fn pool(&self, memory: &impl Memory, constant: u64) -> Option<u64> {
        memory.word(constant.checked_add(self.methods.constants)?)
    }

    /// The name of a class, as the JVM has it.
    pub fn class_name(&self, memory: &impl Memory, class: u64) -> Option<String> {
        self.symbol(
            memory,
            memory.word(class.checked_add(self.methods.class_name)?)?,
        )
    }

    pub(crate) fn method(&self, memory: &impl Memory, method: u64) -> Option<Method> {
        let at = &self.methods;
        let constant = self.constant_part(memory, method)?;
        let pool = self.pool(memory, constant)?;
        let name = memory.short(constant.checked_add(at.name_index)?)?;
        let holder = memory.word(pool.checked_add(at.pool_holder)?)?;
        let name = self.entry(memory, pool, name)?;
        let class = self.class_name(memory, holder)?;
        Some(Method {
            class: shown_class(&class),
            name,
            file: self.source_file(memory, pool, holder),
            line: None,
        })
    }

    fn source_file(&self, memory: &impl Memory, pool: u64, class: u64) -> Option<String> {
        let index = match self.methods.source_file {
            SourceFile::OfPool(offset) => memory.short(pool.checked_add(offset)?)?,
            SourceFile::OfClass(offset) => memory.short(class.checked_add(offset)?)?,
            SourceFile::Unknown => 0,
        };
        if index == 0 {
            return None;
        }
        self.entry(memory, pool, index)
    }

    /// The symbol at an index of a constant pool, whose entries lie behind it, a word each.
    fn entry(&self, memory: &impl Memory, pool: u64, index: u16) -> Option<String> {
        let entries = pool.checked_add(self.methods.pool_size)?;
        let entry = memory.word(entries.checked_add(8 * u64::from(index))?)?;
        // In old versions the lowest bit tells of some that they are resolved.
        self.symbol(memory, entry & !1)
    }

    fn symbol(&self, memory: &impl Memory, symbol: u64) -> Option<String> {
        let length = memory.short(symbol.checked_add(self.methods.symbol_length)?)?;
        let mut text = vec![0; usize::from(length)];
        let body = symbol.checked_add(self.methods.symbol_body)?;
        let is_name = !text.is_empty() && text.len() <= LONGEST && memory.read(body, &mut text);
        let text = is_name.then(|| String::from_utf8_lossy(&text).into_owned())?;
        (!text.contains(char::is_control)).then_some(text)
    }
}
