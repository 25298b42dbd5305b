//! Where fields lie.
use dwell_maps::Memory;

/// What all numbers are called that an engine states.
const PREFIX: &str = "v8dbg_";

/// Why there is none.
#[derive(Debug, PartialEq, Eq)]
pub enum NoV8 {
    /// Its numbers cannot be read yet.
    NotYet,
    /// It does not state what is needed, or something unexpected.
    Unknown,
}

/// Whether a dynamic symbol is one that [`crate::V8::read`] may ask for.
pub fn is_wanted(symbol: &str) -> bool {
    symbol.starts_with(PREFIX)
}

/// How strings are told apart, by the type of their instances.
#[derive(Debug)]
pub(crate) struct Texts {
    pub(crate) not_text_mask: u16,
    pub(crate) kind_mask: u16,
    pub(crate) sequential: u16,
    pub(crate) cons: u16,
    pub(crate) external: u16,
    pub(crate) sliced: u16,
    pub(crate) thin: u16,
    pub(crate) encoding_mask: u16,
    pub(crate) one_byte: u16,
    pub(crate) length: u64,
    pub(crate) one_byte_chars: u64,
    pub(crate) two_byte_chars: u64,
    pub(crate) cons_first: u64,
    pub(crate) cons_second: u64,
    pub(crate) sliced_parent: u64,
    pub(crate) sliced_offset: u64,
    pub(crate) thin_actual: u64,
    pub(crate) external_resource: u64,
}

/// Offsets in bytes from the start of an object, and numbers of types.
#[derive(Debug)]
pub(crate) struct Layout {
    pub(crate) instance_type: u64,
    pub(crate) function_shared: u64,
    pub(crate) shared_type: u16,
    pub(crate) shared_data: u64,
    pub(crate) shared_name: u64,
    pub(crate) shared_script: u64,
    pub(crate) script_type: u16,
    pub(crate) script_name: u64,
    pub(crate) script_source: u64,
    pub(crate) script_line_ends: u64,
    pub(crate) array_length: u64,
    pub(crate) array_data: u64,
    pub(crate) scope_type: u16,
    /// Words, behind the type, before the number of variables.
    pub(crate) scope_count: u64,
    pub(crate) scope_first: u64,
    pub(crate) texts: Texts,
}

/// What an engine states, by its symbols' names and actual addresses.
pub(crate) struct Stated<'m, M> {
    pub(crate) memory: &'m M,
    pub(crate) symbols: Vec<(&'m str, u64)>,
}

impl<M: Memory> Stated<'_, M> {
    /// A number by its name.
    fn number(&self, name: &str) -> Result<u64, NoV8> {
        self.at(self.symbol(name))
    }

    fn symbol(&self, name: &str) -> Option<&(&str, u64)> {
        let mut symbols = self.symbols.iter();
        symbols.find(|(symbol, _)| symbol.strip_prefix(PREFIX) == Some(name))
    }

    /// Where a field lies, whose type's name may follow its own.
    fn field(&self, name: &str) -> Result<u64, NoV8> {
        let mut symbols = self.symbols.iter();
        let found = symbols.find(|(symbol, _)| {
            let symbol = symbol.strip_prefix(PREFIX);
            let rest = symbol.and_then(|s| s.strip_prefix("class_")?.strip_prefix(name));
            rest.is_some_and(|rest| rest.starts_with("__"))
        });
        self.at(found)
    }

    fn at(&self, symbol: Option<&(&str, u64)>) -> Result<u64, NoV8> {
        const LARGEST: u64 = 1 << 16;
        let number = u64::try_from(self.int_at(symbol)?).map_err(|_| NoV8::Unknown)?;
        (number < LARGEST).then_some(number).ok_or(NoV8::Unknown)
    }

    fn int_at(&self, symbol: Option<&(&str, u64)>) -> Result<i32, NoV8> {
        let (_, address) = symbol.ok_or(NoV8::Unknown)?;
        self.memory.int(*address).ok_or(NoV8::NotYet)
    }

    /// A number of 16 bits: a type of objects, or a mask for such.
    fn short(&self, name: &str) -> Result<u16, NoV8> {
        let number = self.int_at(self.symbol(name))?;
        let unsigned = u16::try_from(number).or_else(|_| i16::try_from(number).map(|n| n as u16));
        unsigned.map_err(|_| NoV8::Unknown)
    }
}

impl Texts {
    fn of<M: Memory>(stated: &Stated<'_, M>) -> Result<Self, NoV8> {
        Ok(Texts {
            not_text_mask: stated.short("IsNotStringMask")?,
            kind_mask: stated.short("StringRepresentationMask")?,
            sequential: stated.short("SeqStringTag")?,
            cons: stated.short("ConsStringTag")?,
            external: stated.short("ExternalStringTag")?,
            sliced: stated.short("SlicedStringTag")?,
            thin: stated.short("ThinStringTag")?,
            encoding_mask: stated.short("StringEncodingMask")?,
            one_byte: stated.short("OneByteStringTag")?,
            length: stated.field("String__length")?,
            one_byte_chars: stated.field("SeqOneByteString__chars")?,
            two_byte_chars: stated.field("SeqTwoByteString__chars")?,
            cons_first: stated.field("ConsString__first")?,
            cons_second: stated.field("ConsString__second")?,
            sliced_parent: stated.field("SlicedString__parent")?,
            sliced_offset: stated.field("SlicedString__offset")?,
            thin_actual: stated.field("ThinString__actual")?,
            external_resource: stated.field("ExternalString__resource")?,
        })
    }
}

impl Layout {
    pub(crate) fn of<M: Memory>(stated: &Stated<'_, M>) -> Result<Self, NoV8> {
        // Words are whole addresses, small numbers lie in their upper half.
        if stated.number("TaggedSize")? != 8 || stated.number("SmiShiftSize")? != 31 {
            return Err(NoV8::Unknown);
        }
        Ok(Layout {
            instance_type: stated.field("Map__instance_type")?,
            function_shared: stated.field("JSFunction__shared")?,
            shared_type: stated.short("type_SharedFunctionInfo__SHARED_FUNCTION_INFO_TYPE")?,
            // Newer versions do not state it: it comes first.
            shared_data: stated
                .field("SharedFunctionInfo__function_data")
                .unwrap_or(8),
            shared_name: stated.field("SharedFunctionInfo__name_or_scope_info")?,
            shared_script: stated
                .field("SharedFunctionInfo__script_or_debug_info")
                .or_else(|_| stated.field("SharedFunctionInfo__script"))?,
            script_type: stated.short("type_Script__SCRIPT_TYPE")?,
            script_name: stated.field("Script__name")?,
            script_source: stated.field("Script__source")?,
            script_line_ends: stated.field("Script__line_ends")?,
            array_length: stated.field("FixedArrayBase__length")?,
            array_data: stated.field("FixedArray__data")?,
            scope_type: stated.short("type_ScopeInfo__SCOPE_INFO_TYPE")?,
            scope_count: stated.number("scopeinfo_idx_ncontextlocals")?,
            scope_first: stated.number("scopeinfo_idx_first_vars")?,
            texts: Texts::of(stated)?,
        })
    }
}
