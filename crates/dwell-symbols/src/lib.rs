//! Addresses to names: debug files, JIT maps, the kernel's symbols
