//! The world of a script: its target's names, then the kernel's.
use std::cell::{OnceCell, RefCell};

use dwell_script::typed::ProbePattern;
use dwell_script::types::{Type, TypeId, Types};
use dwell_script::{Argument, Arguments, Keyword, Passed, Symbol, SymbolPlace, World};

use crate::btf::{Btf, Met};
use crate::dwarf::{Converted, Converter, Debug, Entry, Kind, Location, Named};
use crate::kernel_symbols;
use crate::passing::{self, Parameter};
use crate::process::{Module, Process};
use crate::symbols;
use crate::thread_local;

/// Names of a suggestion are not longer or shorter than what was written by more than this.
const NEAR: usize = 3;

/// What scripts call the kernel itself.
const KERNEL: [&str; 4] = ["vmlinux", "kernel", "genunix", "unix"];

/// What is known of one target, for one script.
pub struct Known<'m> {
    process: Option<&'m Process>,
    /// By module of the process.
    debug: Vec<OnceCell<Option<Debug<'m>>>>,
    converted: RefCell<Converted>,
    kernel: OnceCell<Option<Btf>>,
    met: RefCell<Met>,
}

impl<'m> Known<'m> {
    /// The world of a script about a process, or about none. For each script one of its own: it remembers which of
    /// the script's types is which.
    pub fn new(process: Option<&'m Process>) -> Known<'m> {
        let modules = process.map_or(0, |process| process.modules.len());
        Known {
            process,
            debug: (0..modules).map(|_| OnceCell::new()).collect(),
            converted: RefCell::default(),
            kernel: OnceCell::new(),
            met: RefCell::default(),
        }
    }

    fn debug(&self, module: usize) -> Option<&Debug<'m>> {
        let open = || Debug::open(self.process?.modules.get(module)?.files()?);
        self.debug.get(module)?.get_or_init(open).as_ref()
    }

    /// Something of the kernel, where the script may mean it.
    fn of_kernel<R>(
        &self,
        module: Option<&str>,
        find: impl FnOnce(&Btf, &mut Met) -> Option<R>,
    ) -> Option<R> {
        if module.is_some_and(|module| !KERNEL.contains(&module)) {
            return None;
        }
        let btf = self.kernel.get_or_init(Btf::of_kernel).as_ref()?;
        find(btf, &mut self.met.borrow_mut())
    }

    /// A variable or function of the kernel, taken for an integer of its size.
    fn kernel_symbol(&self, module: Option<&str>, name: &str, types: &mut Types) -> Option<Symbol> {
        let module = module.filter(|module| !KERNEL.contains(module));
        let found = kernel_symbols::find(module, name)?;
        // What follows may only be aligned: where there is room for a word, it is taken for one.
        let size = if found.room < 8 { found.room } else { 8 };
        let ty = type_by_size(size, found.is_function, types);
        Some(Symbol {
            place: SymbolPlace::Address(found.address),
            ty: Some(ty),
        })
    }

    /// The modules that a name may be of, the program first.
    fn modules(&self, named: Option<&str>) -> impl Iterator<Item = (usize, &'m Module)> {
        let all = self.process.map_or(&[][..], |process| &process.modules);
        let meant = move |module: &&Module| named.is_none_or(|name| module.is_meant(name));
        all.iter()
            .enumerate()
            .filter(move |(_, module)| meant(module))
    }

    /// The modules with debug information.
    fn debugs(&self, named: Option<&str>) -> impl Iterator<Item = (usize, &Debug<'m>)> {
        self.modules(named)
            .filter_map(|(number, _)| Some((number, self.debug(number)?)))
    }

    fn converting<R>(
        &self,
        module: usize,
        types: &mut Types,
        action: impl FnOnce(&mut Converter<'_, 'm>) -> R,
    ) -> Option<R> {
        let mut converted = self.converted.borrow_mut();
        let debug = self.debug(module)?;
        let mut converter = Converter::new(debug, module, types, &mut converted);
        Some(action(&mut converter))
    }

    fn type_of(&self, module: usize, entry: &Entry<'_, 'm>, types: &mut Types) -> Option<TypeId> {
        self.converting(module, types, |converter| converter.type_of(entry))
    }

    /// A type that the script was told of already, with its members.
    fn met_type(&self, keyword: Option<Keyword>, name: &str, types: &mut Types) -> Option<TypeId> {
        let keywords: &[&'static str] = match keyword? {
            Keyword::Struct => &["struct", "class"],
            Keyword::Union => &["union"],
            Keyword::Enum => return None,
        };
        let met = keywords
            .iter()
            .find_map(|keyword| self.converted.borrow().tagged(keyword, name))?;
        let module = self.converted.borrow().module_of(met);
        if let Some(module) = module {
            self.converting(module, types, |converter| converter.complete(met));
        }
        let whole = !matches!(types.get(met), Type::Incomplete { .. });
        whole.then_some(met)
    }

    /// A variable by the debug information of its module.
    fn described(&self, number: usize, name: &str, types: &mut Types) -> Option<Symbol> {
        let module = &self.process?.modules[number];
        let entry = self.debug(number)?.variable(name)?;
        let place = match entry.location()? {
            Location::Stated(address) => {
                let copied = self.copied(module, &entry, name);
                let own = module.bias()?.wrapping_add(address);
                SymbolPlace::Address(copied.unwrap_or(own))
            }
            Location::ThreadLocal(offset) => thread_local::place(self.process?, module, offset)?,
        };
        let ty = self.type_of(number, &entry, types)?;
        Some(self.present(
            Symbol {
                place,
                ty: Some(ty),
            },
            types,
        ))
    }

    /// Where the program has a library's variable of its own: what it refers to directly was copied there, and all
    /// use the copy.
    fn copied(&self, module: &Module, entry: &Entry<'_, 'm>, name: &str) -> Option<u64> {
        let external = entry.inherited(|entry| entry.flag(gimli::DW_AT_external).then_some(()));
        if module.is_program || external.is_none() {
            return None;
        }
        let linked = entry.inherited(|entry| entry.text(gimli::DW_AT_linkage_name));
        let program = self.process?.modules.first().filter(|m| m.is_program)?;
        let symbol = symbols::find(program.files()?, linked.unwrap_or(name))?;
        let is_variable = !symbol.is_function && !symbol.is_thread_local;
        let address = is_variable.then(|| program.bias())??;
        Some(address.wrapping_add(symbol.value))
    }

    /// A variable or function by the symbol table of its module.
    fn listed(&self, number: usize, name: &str, types: &mut Types) -> Option<Symbol> {
        let module = &self.process?.modules[number];
        let defined = symbols::find(module.files()?, name)?;
        let place = if defined.is_thread_local {
            thread_local::place(self.process?, module, defined.value)?
        } else {
            SymbolPlace::Address(module.bias()?.wrapping_add(defined.value))
        };
        let mut declared = || {
            self.debugs(None).find_map(|(number, debug)| {
                let entry = debug
                    .declared_variable(name)
                    .or_else(|| debug.variable(name))?;
                self.type_of(number, &entry, types)
            })
        };
        let ty = match defined.is_function {
            true => None,
            false => declared(),
        };
        let ty = Some(ty.unwrap_or_else(|| type_by_size(defined.size, defined.is_function, types)));
        Some(self.present(Symbol { place, ty }, types))
    }

    /// Sees to it that a variable's pages are there when a program wants to read them.
    fn present(&self, symbol: Symbol, types: &Types) -> Symbol {
        if let (Some(process), SymbolPlace::Address(address)) = (self.process, symbol.place) {
            let size = symbol.ty.and_then(|ty| types.size(ty));
            process.make_present(address, size.unwrap_or(1));
        }
        symbol
    }

    /// The functions that a probe description means, by module.
    fn functions(&self, probe: &ProbePattern) -> Vec<(usize, Entry<'_, 'm>)> {
        let module = Some(&*probe.module).filter(|name| !name.is_empty());
        let mut found = Vec::new();
        for (number, debug) in self.debugs(module) {
            let index = debug.index();
            let named = index.named(&probe.function).iter();
            let mut places: Vec<_> = named
                .filter(|named| named.kind == Kind::Function)
                .map(|named| named.place)
                .collect();
            places.extend(index.linked(&probe.function));
            if let (true, Some(files)) = (places.is_empty(), self.files(number)) {
                let linked = symbols::functions_of(files, &probe.function);
                places.extend(linked.iter().filter_map(|name| index.linked(name)));
            }
            let entries = places.into_iter().filter_map(|place| debug.entry(place));
            found.extend(entries.map(|entry| (number, entry)));
        }
        found
    }

    fn files(&self, module: usize) -> Option<&'m crate::files::Files> {
        self.process?.modules.get(module)?.files()
    }

    /// The arguments of one function at its entry or its return.
    fn arguments_of(
        &self,
        (module, function): &(usize, Entry<'_, 'm>),
        returns: bool,
        types: &mut Types,
    ) -> Option<Vec<Argument>> {
        let returned = match function.inherited(|entry| entry.entry_of(gimli::DW_AT_type)) {
            Some(of) => Some(self.parameter(*module, &of, types)?),
            None => None,
        };
        if returns {
            let offset = types.add(Type::Int {
                name: "unsigned long".into(),
                size: 8,
                signed: false,
            });
            let offset = Argument {
                ty: offset,
                passed: Passed::Word(0),
            };
            let result = returned.map(|of| passing::result(types, of));
            return Some([offset].into_iter().chain(result).collect());
        }
        let is_parameter = |depth: isize, tag| depth == 1 && tag == gimli::DW_TAG_formal_parameter;
        let parameters = function.below(is_parameter);
        let parameters: Option<Vec<Parameter>> = parameters
            .iter()
            .map(|parameter| {
                let of = parameter.inherited(|entry| entry.entry_of(gimli::DW_AT_type))?;
                self.parameter(*module, &of, types)
            })
            .collect();
        Some(passing::arguments(types, &parameters?, returned))
    }

    /// A parameter's type, and whether its objects are passed by address.
    fn parameter(&self, module: usize, of: &Entry<'_, 'm>, types: &mut Types) -> Option<Parameter> {
        let by_address = by_address(of);
        let place = of.place;
        let ty = self.converting(module, types, |c| c.complete_type(place))?;
        Some((ty, by_address))
    }
}

/// Whether objects of a type have constructors or destructors that keep them in memory; also behind typedefs.
fn by_address(of: &Entry<'_, '_>) -> bool {
    const PASS_BY_REFERENCE: u64 = gimli::DW_CC_pass_by_reference.0 as u64;
    let convention = |entry: &Entry<'_, '_>| match entry.value(gimli::DW_AT_calling_convention) {
        Some(gimli::AttributeValue::CallingConvention(convention)) => Some(u64::from(convention.0)),
        _ => None,
    };
    let is_name = |tag| {
        matches!(
            tag,
            gimli::DW_TAG_typedef | gimli::DW_TAG_const_type | gimli::DW_TAG_volatile_type
        )
    };
    if convention(of) == Some(PASS_BY_REFERENCE) {
        return true;
    }
    let mut at = of.entry_of(gimli::DW_AT_type).filter(|_| is_name(of.tag()));
    for _ in 0..8 {
        let Some(entry) = at else { return false };
        if convention(&entry) == Some(PASS_BY_REFERENCE) {
            return true;
        }
        at = entry
            .entry_of(gimli::DW_AT_type)
            .filter(|_| is_name(entry.tag()));
    }
    false
}

/// What a variable without debug information is taken for: an integer of its size, or bytes.
fn type_by_size(size: u64, is_function: bool, types: &mut Types) -> TypeId {
    if is_function {
        return types.add(Type::Function);
    }
    let int = |name: &str, size, signed| Type::Int {
        name: name.into(),
        size,
        signed,
    };
    let ty = match size {
        1 => int("char", 1, true),
        2 => int("short", 2, true),
        0 | 4 => int("int", 4, true),
        8 => int("long", 8, true),
        size => {
            let of = types.add(int("unsigned char", 1, false));
            let count = u32::try_from(size).unwrap_or(0);
            Type::Array { of, count }
        }
    };
    types.add(ty)
}

/// Whether an entry is a type that a script can mean with this keyword, or without one.
fn is_type(named: &Named, keyword: Option<Keyword>) -> bool {
    let tagged = matches!(
        named.kind,
        Kind::Structure | Kind::Union | Kind::Enumeration
    );
    match keyword {
        None => named.kind == Kind::Type || (tagged && named.without_keyword),
        Some(Keyword::Struct) => named.kind == Kind::Structure,
        Some(Keyword::Union) => named.kind == Kind::Union,
        Some(Keyword::Enum) => named.kind == Kind::Enumeration,
    }
}

impl World for Known<'_> {
    fn type_named(
        &self,
        module: Option<&str>,
        keyword: Option<Keyword>,
        name: &str,
        types: &mut Types,
    ) -> Option<TypeId> {
        let met = module
            .is_none()
            .then(|| self.met_type(keyword, name, types));
        if let Some(met) = met.flatten() {
            return Some(met);
        }
        let of_target = self.debugs(module).find_map(|(number, debug)| {
            let mut named = debug.index().named(name).iter();
            let found = named.find(|named| is_type(named, keyword))?;
            self.converting(number, types, |c| c.complete_type(found.place))
        });
        of_target.or_else(|| {
            self.of_kernel(module, |btf, met| btf.type_named(keyword, name, types, met))
        })
    }

    fn symbol(&self, module: Option<&str>, name: &str, types: &mut Types) -> Option<Symbol> {
        let of_target = self.modules(module).find_map(|(number, _)| {
            let described = self.described(number, name, types);
            described.or_else(|| self.listed(number, name, types))
        });
        of_target.or_else(|| self.kernel_symbol(module, name, types))
    }

    fn constant(&self, name: &str, types: &mut Types) -> Option<(i64, TypeId)> {
        let of_target = self.debugs(None).find_map(|(number, debug)| {
            debug.index().named(name).iter().find_map(|named| {
                let Kind::Enumerator(value) = named.kind else {
                    return None;
                };
                let ty = self.converting(number, types, |c| c.complete_type(named.place))?;
                Some((value, ty))
            })
        });
        of_target.or_else(|| self.of_kernel(None, |btf, met| btf.constant(name, types, met)))
    }

    fn arguments(&self, probe: &ProbePattern, types: &mut Types) -> Arguments {
        if ["sdt", "tracepoint"].contains(&&*probe.provider) {
            let find = |btf: &Btf, met: &mut Met| btf.tracepoint(&probe.name, types, met);
            let known = self.of_kernel(None, find);
            let words = known.map(|known| known.into_iter().zip(0..).map(word).collect());
            return words.map_or(Arguments::Unknown, Arguments::Known);
        }
        let of_target = probe
            .provider
            .strip_prefix("pid")
            .and_then(|pid| pid.parse().ok());
        if of_target.is_none() || of_target != self.process.map(|process| process.pid) {
            return Arguments::Unknown;
        }
        let returns = match &*probe.name {
            "entry" => false,
            "return" => true,
            _ => return Arguments::Unknown,
        };
        let functions = self.functions(probe);
        // A star may also be a parameter's.
        let is_pattern = probe.function.is_empty() || probe.function.contains(['*', '?']);
        if functions.is_empty() && is_pattern {
            return Arguments::Ambiguous;
        }
        let mut known: Option<Vec<Argument>> = None;
        for function in functions {
            let Some(arguments) = self.arguments_of(&function, returns, types) else {
                continue;
            };
            match &known {
                None => known = Some(arguments),
                Some(known) if are_same(types, known, &arguments) => {}
                Some(_) => return Arguments::Ambiguous,
            }
        }
        known.map_or(Arguments::Unknown, Arguments::Known)
    }

    fn symbols_like(&self, name: &str) -> Vec<String> {
        let mut names = Vec::new();
        for (number, _) in self.modules(None) {
            if let Some(debug) = self.debug(number) {
                names.extend(debug.index().variables().map(str::to_owned));
            }
            names.extend(
                self.files(number)
                    .map(symbols::variables)
                    .unwrap_or_default(),
            );
        }
        names.retain(|known| known.len().abs_diff(name.len()) <= NEAR);
        names.sort();
        names.dedup();
        names
    }
}

/// An argument that is a word of its own.
fn word((ty, number): (TypeId, u8)) -> Argument {
    Argument {
        ty,
        passed: Passed::Word(number),
    }
}

/// Whether two functions take the same.
fn are_same(types: &Types, a: &[Argument], b: &[Argument]) -> bool {
    let same =
        |(a, b): (&Argument, &Argument)| a.passed == b.passed && types.compatible(a.ty, b.ty);
    a.len() == b.len() && a.iter().zip(b).all(same)
}
