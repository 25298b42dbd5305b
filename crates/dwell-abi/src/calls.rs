//! System calls of 32-bit code, which have other numbers than those of 64-bit code.

/// The code segment of 32-bit code (`__USER32_CS` of the kernel's asm/segment.h).
pub const CODE_SEGMENT_32: u16 = 0x23;
/// A call that 64-bit code has not.
pub const NO_CALL: u16 = 0x7ffe;
/// From here on both have the same numbers.
pub const SAME_NUMBERS: u16 = 424;

/// The number in asm/unistd_64.h of each call of asm/unistd_32.h, by name; of what has a newer form in 32-bit code
/// (mmap2, futex_time64, stat64, _newselect, waitpid, ...) that of the only one in 64-bit code.
#[rustfmt::skip]
pub const CALLS_OF_32: [u16; SAME_NUMBERS as usize] = [
    219, 60, 57, 0, 1, 2, 3, 61, 85, 86, 87, 59, 80, 201, 133, 90,
    94, NO_CALL, 4, 8, 39, 165, 166, 105, 102, 164, 101, 37, 5, 34, 132, NO_CALL,
    NO_CALL, 21, 141, NO_CALL, 162, 62, 82, 83, 84, 32, 22, 100, NO_CALL, 12, 106, 104,
    NO_CALL, 107, 108, 163, 166, NO_CALL, 16, 72, NO_CALL, 109, NO_CALL, 63, 95, 161, 136, 33,
    110, 111, 112, 13, NO_CALL, NO_CALL, 113, 114, 130, 127, 170, 160, 97, 98, 96, 164,
    115, 116, 23, 88, 6, 89, 134, 167, 169, 78, 9, 11, 76, 77, 91, 93,
    140, 141, NO_CALL, 137, 138, 173, NO_CALL, 103, 38, 36, 4, 6, 5, 63, 172, 153,
    NO_CALL, NO_CALL, 61, 168, 99, NO_CALL, 74, 15, 56, 171, 63, 154, 159, 10, 14, 174,
    175, 176, 177, 179, 121, 81, NO_CALL, 139, 135, 183, 122, 123, 8, 78, 23, 73,
    26, 19, 20, 124, 75, 156, 149, 150, 151, 152, 142, 143, 144, 145, 24, 146,
    147, 148, 35, 25, 117, 118, NO_CALL, 178, 7, 180, 119, 120, 157, 15, 13, 14,
    127, 128, 129, 130, 17, 18, 92, 79, 125, 126, 131, 40, 181, 182, 58, 97,
    9, 76, 77, 4, 6, 5, 94, 102, 104, 107, 108, 113, 114, 115, 116, 93,
    117, 118, 119, 120, 92, 105, 106, 122, 123, 155, 27, 28, 217, 72, NO_CALL, NO_CALL,
    186, 187, 188, 189, 190, 191, 192, 193, 194, 195, 196, 197, 198, 199, 200, 40,
    202, 203, 204, 205, 211, 206, 207, 208, 209, 210, 221, NO_CALL, 231, 212, 213, 233,
    232, 216, 218, 222, 223, 224, 225, 226, 227, 228, 229, 230, 137, 138, 234, 235,
    221, 236, 237, 239, 238, 240, 241, 242, 243, 244, 245, 246, 247, NO_CALL, 248, 249,
    250, 251, 252, 253, 254, 255, 256, 257, 258, 259, 260, 261, 262, 263, 264, 265,
    266, 267, 268, 269, 270, 271, 272, 273, 274, 275, 277, 276, 278, 279, 309, 281,
    280, 282, 283, 284, 285, 286, 287, 289, 290, 291, 292, 293, 294, 295, 296, 297,
    298, 299, 300, 301, 302, 303, 304, 305, 306, 307, 308, 310, 311, 312, 313, 314,
    315, 316, 317, 318, 319, 321, 322, 41, 53, 49, 42, 50, 288, 55, 54, 51,
    52, 44, 46, 45, 47, 48, 323, 324, 325, 326, 327, 328, 329, 330, 331, 332,
    158, 333, 334, NO_CALL, NO_CALL, NO_CALL, NO_CALL, NO_CALL, NO_CALL, 64, 66, 29, 31, 30, 67, 68,
    69, 70, 71, 228, 227, 305, 229, 230, 224, 223, 287, 286, 280, 270, 271, NO_CALL,
    333, 299, 242, 243, 220, 128, 202, 148,
];

pub(crate) fn emit_c(out: &mut alloc::string::String) {
    use core::fmt::Write;
    let _ = writeln!(out, "#define CODE_SEGMENT_32 {CODE_SEGMENT_32}");
    let _ = writeln!(out, "#define SAME_NUMBERS {SAME_NUMBERS}");
    let _ = write!(out, "#define CALLS_OF_32 {{");
    for number in CALLS_OF_32 {
        let _ = write!(out, " {number},");
    }
    let _ = writeln!(out, " }}");
}
