//! Samples of a row, made when they are needed: no file of this project holds a whole key, not even an invented one.

use super::{Family, Part};
use crate::output::scan::Class;

/// A small deterministic generator of samples. It is for tests and measurements, not for secrets.
#[derive(Clone, Debug)]
pub struct Sampler {
    state: u64,
}

impl Sampler {
    /// A generator that always gives the same samples for the same seed.
    pub fn new(seed: u64) -> Self {
        Self { state: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0xd1b5_4a32_d192_ed03 }
    }

    /// The next number (SplitMix64, Steele, Lea and Flood 2014).
    pub fn next_number(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`, or 0.
    pub fn below(&mut self, bound: usize) -> usize {
        let bound = u64::try_from(bound).unwrap_or(u64::MAX).max(1);
        usize::try_from(self.next_number() % bound).unwrap_or(0)
    }

    /// `len` characters of a class.
    pub fn text(&mut self, class: Class, len: usize) -> String {
        // Padding stands only at the end of base64, never inside, and a dot ends a sentence.
        let alphabet: Vec<u8> = class.alphabet().into_iter().filter(|byte| !matches!(byte, b'=' | b'.')).collect();
        (0..len).map(|_| char::from(alphabet[self.below(alphabet.len())])).collect()
    }

    /// A token in the vendor's own format.
    pub fn token(&mut self, family: &Family) -> String {
        let mut token = String::new();
        if let Some(lead) = family.lead {
            let len = lead.min + self.below(lead.max - lead.min + 1);
            token.push_str(&self.text(lead.class, len));
        }
        token.push_str(family.gates[self.below(family.gates.len())]);
        for part in family.parts {
            match *part {
                Part::Text(text) => token.push_str(text),
                // Most vendors use the lower half of what is allowed.
                Part::Run(class, min, max) => {
                    let len = min + self.below((max - min).min(60) + 1);
                    token.push_str(&self.text(class, len));
                }
            }
        }
        token
    }
}
