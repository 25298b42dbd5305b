//! One colour per state, the same in the terminal and in pictures.
//!
//! Running is warm, spinning a deep red, waiting for a processor yellow, every reason for being blocked
//! has a hue of its own. Neighbouring hues differ in lightness too, so that they stay apart for
//! colour-blind eyes (after Okabe and Ito).
use dwell_analysis::{Reason, State};

/// Red, green, blue.
pub type Rgb = [u8; 3];

/// The colour of a state.
pub fn rgb(state: State) -> Rgb {
    match state {
        State::Running => [0xe0, 0x5a, 0x1c],
        State::Spinning => [0xb3, 0x12, 0x2e],
        State::Runnable => [0xf2, 0xc5, 0x2e],
        State::Blocked(reason) => blocked_rgb(reason),
        State::Stolen => [0xa8, 0xc4, 0x1e],
        State::Lost => [0x4a, 0x4a, 0x4a],
    }
}

fn blocked_rgb(reason: Reason) -> Rgb {
    match reason {
        Reason::Lock => [0x8a, 0x4f, 0xa8],
        Reason::Io => [0x00, 0x62, 0xa8],
        Reason::Socket => [0x56, 0xb4, 0xe9],
        Reason::Pipe => [0x00, 0x8f, 0x6b],
        Reason::Poll => [0x9f, 0xd3, 0xbd],
        Reason::Sleep => [0xc2, 0xc9, 0xd3],
        Reason::Fault => [0xd4, 0x73, 0xa6],
        Reason::Child => [0x8c, 0x6d, 0x46],
        Reason::Stopped => [0x7d, 0x7d, 0x7d],
        Reason::Other => [0xb4, 0xa4, 0xd8],
        Reason::Unknown => [0xd8, 0xcf, 0xc0],
    }
}

/// The colour nearest to a state's among the 256 that terminals agree on.
pub fn ansi(state: State) -> anstyle::Ansi256Color {
    anstyle::Ansi256Color(match state {
        State::Running => 166,
        State::Spinning => 124,
        State::Runnable => 220,
        State::Blocked(reason) => match reason {
            Reason::Lock => 133,
            Reason::Io => 32,
            Reason::Socket => 74,
            Reason::Pipe => 36,
            Reason::Poll => 115,
            Reason::Sleep => 250,
            Reason::Fault => 175,
            Reason::Child => 137,
            Reason::Stopped => 243,
            Reason::Other => 146,
            Reason::Unknown => 187,
        },
        State::Stolen => 148,
        State::Lost => 239,
    })
}

/// Mixes colours by weight; `paler` (0 to 1) moves the result towards white.
pub fn mix(parts: impl Iterator<Item = (Rgb, u64)>, paler: f64) -> Rgb {
    let mut sums = [0.0; 3];
    let mut total = 0.0;
    for (rgb, weight) in parts {
        for (sum, part) in sums.iter_mut().zip(rgb) {
            *sum += f64::from(part) * weight as f64;
        }
        total += weight as f64;
    }
    if total == 0.0 {
        return [0xff; 3];
    }
    sums.map(|sum| {
        let value = sum / total;
        (value + (255.0 - value) * paler).round() as u8
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_has_its_own_colour() {
        let mut colours: Vec<Rgb> = State::all().map(rgb).collect();
        colours.sort_unstable();
        colours.dedup();
        assert_eq!(colours.len(), State::COUNT);
        let mut codes: Vec<u8> = State::all().map(|s| ansi(s).0).collect();
        codes.sort_unstable();
        codes.dedup();
        assert_eq!(codes.len(), State::COUNT);
    }

    #[test]
    fn mixing_weighs() {
        assert_eq!(
            mix([([0, 0, 0], 1), ([100, 100, 100], 3)].into_iter(), 0.0),
            [75; 3]
        );
        assert_eq!(mix([([0, 0, 0], 1)].into_iter(), 1.0), [255; 3]);
        assert_eq!(mix(std::iter::empty(), 0.0), [255; 3]);
    }
}
