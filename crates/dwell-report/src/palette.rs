//! One colour per state, the same in the terminal and in pictures.
//!
//! Running is warm, spinning a deep red, waiting for a processor yellow, every reason for being blocked
//! has a hue of its own. They began as Okabe and Ito's, and were moved until any two stay apart for
//! colour-blind eyes, too; a test holds that.
use dwell_analysis::{Reason, State};

/// Red, green, blue.
pub type Rgb = [u8; 3];

/// The colour of a state.
pub fn rgb(state: State) -> Rgb {
    match state {
        State::Running => [0xe0, 0x5a, 0x1c],
        State::Spinning => [0xb3, 0x12, 0x2e],
        State::Runnable => [0xff, 0xc1, 0x01],
        State::Blocked(reason) => blocked_rgb(reason),
        State::Stolen => [0xb3, 0xc0, 0x47],
        State::Lost => [0x42, 0x40, 0x4c],
    }
}

fn blocked_rgb(reason: Reason) -> Rgb {
    match reason {
        Reason::Lock => [0x72, 0x4d, 0xbd],
        Reason::Condition => [0x78, 0x78, 0xf0],
        Reason::Io => [0x00, 0x6d, 0x9f],
        Reason::Socket => [0x4b, 0xae, 0xfb],
        Reason::Pipe => [0x19, 0xa8, 0x6f],
        Reason::Poll => [0xb3, 0xe6, 0xda],
        Reason::Sleep => [0xcc, 0xce, 0xf3],
        Reason::Fault => [0xda, 0x7b, 0xa1],
        Reason::Child => [0x71, 0x65, 0x44],
        Reason::Stopped => [0x60, 0x6d, 0x67],
        Reason::Other => [0xae, 0x8e, 0xca],
        Reason::Unknown => [0xd2, 0xb3, 0x9f],
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
            Reason::Condition => 105,
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

    /// What eyes without one kind of cone see, of linear red, green and blue: none missing, the one for long, middle, short
    /// waves (Machado, Oliveira and Fernandes, 2009, severity 1).
    const EYES: [[[f64; 3]; 3]; 4] = [
        [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]],
        [
            [0.152286, 1.052583, -0.204868],
            [0.114503, 0.786281, 0.099216],
            [-0.003882, -0.048116, 1.051998],
        ],
        [
            [0.367322, 0.860646, -0.227968],
            [0.280085, 0.672501, 0.047413],
            [-0.011820, 0.042940, 0.968881],
        ],
        [
            [1.255528, -0.076749, -0.178779],
            [-0.078411, 0.930809, 0.147602],
            [0.004733, 0.691367, 0.303900],
        ],
    ];

    /// The rows of a matrix times a vector.
    fn times(matrix: [[f64; 3]; 3], vector: [f64; 3]) -> [f64; 3] {
        matrix.map(|row| row.iter().zip(vector).map(|(a, b)| a * b).sum())
    }

    /// CIE L*a*b* of a colour as such eyes see it: distances in it are those that people see.
    fn seen(rgb: Rgb, eyes: [[f64; 3]; 3]) -> [f64; 3] {
        let linear = rgb.map(|part| match f64::from(part) / 255.0 {
            low if low <= 0.04045 => low / 12.92,
            high => ((high + 0.055) / 1.055).powf(2.4),
        });
        // sRGB's primaries over its white (D65).
        let to_xyz = [
            [0.4339, 0.3762, 0.1899],
            [0.2127, 0.7152, 0.0722],
            [0.0178, 0.1095, 0.8727],
        ];
        let xyz = times(to_xyz, times(eyes, linear).map(|part| part.clamp(0.0, 1.0)));
        let [x, y, z] = xyz.map(|t| match t > 216.0 / 24389.0 {
            true => t.cbrt(),
            false => (24389.0 / 27.0 * t + 16.0) / 116.0,
        });
        [116.0 * y - 16.0, 500.0 * (x - y), 200.0 * (y - z)]
    }

    #[test]
    fn colours_stay_apart_for_colour_blind_eyes() {
        let states: Vec<State> = State::all().collect();
        for eyes in EYES {
            for (place, a) in states.iter().enumerate() {
                for b in &states[place + 1..] {
                    let [one, other] = [*a, *b].map(|state| seen(rgb(state), eyes));
                    let squares = one.iter().zip(other).map(|(a, b)| (a - b).powi(2));
                    let distance = squares.sum::<f64>().sqrt();
                    // 2.3 is just noticed side by side; a legend is not side by side.
                    assert!(distance > 14.0, "{a:?} and {b:?}: {distance}");
                }
            }
        }
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
