//! Any text as the format of a printf.
#![no_main]

use dwell_script::output::format::{Extent, Piece, parse};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|format: &str| {
    let Ok(parsed) = parse(format) else {
        assert!(format.contains('%'));
        return;
    };
    // Each conversion took at least two characters, and no text was made up.
    let mut length = 0;
    for piece in &parsed.pieces {
        length += match piece {
            Piece::Text(text) => text.len(),
            Piece::Conversion(conversion) => {
                for extent in [conversion.width, conversion.precision] {
                    assert!(!matches!(extent, Extent::Fixed(65_536..)));
                }
                1 + conversion.name.len()
            }
        };
    }
    assert!(length <= format.len());
    // Texts are joined: there are never two side by side.
    let text = |piece: &Piece| matches!(piece, Piece::Text(_));
    assert!(
        !parsed
            .pieces
            .windows(2)
            .any(|pair| text(&pair[0]) && text(&pair[1]))
    );
});
