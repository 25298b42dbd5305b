//! Constructors and destructors of all modules, in the loader's order.
use crate::closure::Closure;
use crate::layout::Layout;
use crate::module::{Array, Module};
use crate::selection::LIBC;
use crate::values::{Value, Values};

/// Functions to call, by what their places hold.
#[derive(Debug, Default)]
pub(crate) struct Arrays {
    /// The C library's constructors, when it is merged, and then the program's functions that are called
    /// before all constructors. Empty when the C library stays: the program's are called from where they are.
    pub preinit: Vec<Value>,
    /// The other libraries' constructors, in calling order. The program's own are called from where they are.
    pub init: Vec<Value>,
    /// All destructors, in the order of `DT_FINI_ARRAY`, which is called from its end.
    pub fini: Vec<Value>,
}

impl Arrays {
    pub(crate) fn of(closure: &Closure<'_>, layout: &Layout, values: &Values) -> Self {
        let order = closure.init_order();
        let merged = order.iter().filter_map(|&i| Some((i, layout.bases[i]?)));
        let merged: Vec<(usize, u64)> = merged.collect();
        let mut arrays = Arrays::default();
        for &(index, base) in &merged {
            let module = &closure.modules[index];
            let d = &module.dynamic;
            let init = functions(module, base, (d.init, d.init_array), values);
            if module.name == LIBC {
                // The loader gives these the environment, before libraries that stay use it.
                arrays.preinit.extend(init);
            } else if index != 0 {
                arrays.init.extend(init);
            }
            arrays
                .fini
                .extend(functions(module, base, (d.fini, d.fini_array), values));
        }
        if !arrays.preinit.is_empty() {
            let program = &closure.modules[0];
            let own = list(program, layout.own(), program.dynamic.preinit_array, values);
            arrays.preinit.extend(own);
        }
        arrays
    }

    /// All of them, as they stand behind each other.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Value> {
        self.init.iter().chain(&self.fini).chain(&self.preinit)
    }
}

/// A module's single function (`DT_INIT`, `DT_FINI`), then those of its array.
fn functions(
    module: &Module<'_>,
    base: u64,
    (one, array): (Option<u64>, Array),
    values: &Values,
) -> Vec<Value> {
    let one = one.filter(|&at| at != 0);
    let one = one.map(|at| Value::Image(at.wrapping_add(base)));
    one.into_iter()
        .chain(list(module, base, array, values))
        .collect()
}

/// Most functions per array; a browser has some 3000.
const MAX_FUNCTIONS: u64 = 1 << 17;

/// What an array of a module holds after relocation. 0 and -1 mark no function.
fn list(module: &Module<'_>, base: u64, array: Array, values: &Values) -> Vec<Value> {
    let places = (0..(array.size / 8).min(MAX_FUNCTIONS)).map(|i| array.stated.wrapping_add(8 * i));
    let held = places.map(|stated| {
        let value = values.places.get(&stated.wrapping_add(base)).copied();
        // A program at fixed addresses has them without relocation.
        value.unwrap_or_else(|| Value::Image(module.word(stated)))
    });
    held.filter(|v| {
        !matches!(
            v,
            Value::Image(0 | u64::MAX) | Value::Constant(0 | u64::MAX)
        )
    })
    .collect()
}
