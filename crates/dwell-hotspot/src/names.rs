//! Names of Java methods.
use crate::layout::Jvm;
use crate::memory::Memory;

/// Longest part of a name that is believed, bytes.
const LONGEST: usize = 4096;

/// A Java method.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Method {
    /// Its class with packages, `java.util.HashMap`.
    pub class: String,
    /// Its name.
    pub name: String,
}

impl Jvm {
    /// The method at an address: `Method*` of HotSpot.
    pub fn method(&self, memory: &impl Memory, method: u64) -> Option<Method> {
        let at = &self.methods;
        let constant = memory.word(method.checked_add(at.constant)?)?;
        let pool = memory.word(constant.checked_add(at.constants)?)?;
        let name = memory.short(constant.checked_add(at.name_index)?)?;
        let holder = memory.word(pool.checked_add(at.pool_holder)?)?;
        // The pool's entries lie behind it, a word each.
        let entry = pool.checked_add(at.pool_size)?.checked_add(8 * u64::from(name))?;
        // Its lowest bit tells entries that are resolved, in old versions.
        let name = self.symbol(memory, memory.word(entry)? & !1)?;
        let class = self.symbol(memory, memory.word(holder.checked_add(at.class_name)?)?)?;
        Some(Method {
            class: class.replace('/', "."),
            name,
        })
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
