//! One definition, two languages: the macros that keep a Rust item and its C text together.
use alloc::string::String;

/// An item that can print its own C definition.
pub trait CEmit {
    /// Appends the C text.
    fn emit_c(out: &mut String);
}

/// Defines a `#[repr(C)]` struct of plain integers and prints it in C (`u32`, `i16`, … are typedefs there).
macro_rules! c_struct {
    ($(#[$m:meta])* pub struct $name:ident { $($(#[$fm:meta])* pub $f:ident : $t:tt),* $(,)? }) => {
        $(#[$m])*
        #[repr(C)]
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $name { $($(#[$fm])* pub $f: $t),* }
        impl $crate::CEmit for $name {
            fn emit_c(out: &mut alloc::string::String) {
                use core::fmt::Write;
                let _ = writeln!(out, "struct {} {{", stringify!($name));
                $(
                    c_field!(out, $f, $t);
                )*
                let _ = writeln!(out, "}};");
                let _ = writeln!(out, "_Static_assert(sizeof(struct {0}) == {1}, \"size of {0}\");",
                    stringify!($name), core::mem::size_of::<$name>());
            }
        }
    };
}

macro_rules! c_field {
    ($out:ident, $f:ident, [$t:ident; $n:expr]) => {{
        let _ = writeln!($out, "\t{} {}[{}];", stringify!($t), stringify!($f), $n);
    }};
    ($out:ident, $f:ident, $t:ident) => {{
        let _ = writeln!($out, "\t{} {};", stringify!($t), stringify!($f));
    }};
}

/// Defines integer constants and a function that prints them as a C enum.
macro_rules! c_consts {
    ($emit:ident: $($(#[$m:meta])* pub const $name:ident : $t:ident = $v:expr;)*) => {
        $($(#[$m])* pub const $name: $t = $v;)*
        fn $emit(out: &mut alloc::string::String) {
            use core::fmt::Write;
            $( let _ = writeln!(out, "#define {} {}", stringify!($name), $name); )*
        }
    };
}

/// Defines a fieldless enum with a stable number and a stable name per variant, and its C constants.
macro_rules! c_enum {
    ($(#[$m:meta])* pub enum $name:ident : $prefix:literal { $($(#[$vm:meta])* $v:ident = $n:literal, $c:literal, $text:literal;)* }) => {
        $(#[$m])*
        #[repr(u8)]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $name { $($(#[$vm])* $v = $n),* }
        impl $name {
            /// Every variant, in the order of their numbers.
            pub const ALL: &'static [$name] = &[$($name::$v),*];
            /// The stable name used in recordings.
            pub const fn name(self) -> &'static str { match self { $($name::$v => $text),* } }
            /// The variant with this number.
            pub const fn from_u8(n: u8) -> Option<Self> { match n { $($n => Some($name::$v),)* _ => None } }
            /// The variant with this stable name.
            pub fn from_name(name: &str) -> Option<Self> { match name { $($text => Some($name::$v),)* _ => None } }
        }
        impl $crate::CEmit for $name {
            fn emit_c(out: &mut alloc::string::String) {
                use core::fmt::Write;
                $( let _ = writeln!(out, "#define {}{} {}", $prefix, $c, $n); )*
            }
        }
    };
}
