//! Whether a value looks like a random key rather than like something a person wrote.
//!
//! Two models of text are compared: how many bits it takes to write the value in the manner of identifiers and words
//! (pairs of characters, counted over the Python standard library and a few hundred crates), and how many if every
//! character of its alphabet is as likely as any other. Random values take many more bits in the first model.

/// Costs of one character after another, in quarters of a bit above `0`; `cargo xtask redaction train` makes it.
/// 54 rows of 54 and a newline: `a-z`, `A-Z`, any digit, anything else.
static PAIRS: &[u8; 54 * 55] = include_bytes!("bigrams.txt");

/// Bits that tell one of ten digits.
const DIGIT_BITS: f32 = 3.32;

/// How many bits speak for a random value. Below zero it reads like words.
pub(super) fn surprise(value: &[u8]) -> f32 {
    if value.is_empty() {
        return 0.0;
    }
    let mut quarters = 0_u32;
    let mut previous = 53;
    for symbol in value.iter().map(|byte| symbol(*byte)).chain([53]) {
        quarters += u32::from(PAIRS[previous * 55 + symbol].saturating_sub(b'0'));
        previous = symbol;
    }
    let digits = value.iter().filter(|byte| byte.is_ascii_digit()).count();
    #[expect(clippy::cast_precision_loss, reason = "lengths are far below 2^24")]
    let (quarters, digits, len) = (quarters as f32, digits as f32, value.len() as f32);
    quarters / 4.0 + digits * DIGIT_BITS - len * alphabet_bits(value)
}

fn symbol(byte: u8) -> usize {
    match byte {
        b'a'..=b'z' => usize::from(byte - b'a'),
        b'A'..=b'Z' => usize::from(byte - b'A') + 26,
        b'0'..=b'9' => 52,
        _ => 53,
    }
}

/// Bits of one character, if all characters of the kinds that occur are equally likely.
fn alphabet_bits(value: &[u8]) -> f32 {
    let traits = Traits::of(value);
    let is_hex = value.iter().all(u8::is_ascii_hexdigit) && !(traits.has_lower && traits.has_upper);
    let size: u16 = if is_hex {
        if traits.has_lower || traits.has_upper { 16 } else { 10 }
    } else {
        26 * u16::from(traits.has_lower)
            + 26 * u16::from(traits.has_upper)
            + 10 * u16::from(traits.has_digit)
            + 2 * u16::from(traits.has_other)
    };
    f32::from(size.max(2)).log2()
}

/// Which kinds of characters occur.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Traits {
    pub(super) has_lower: bool,
    pub(super) has_upper: bool,
    pub(super) has_digit: bool,
    pub(super) has_other: bool,
}

impl Traits {
    pub(super) fn of(value: &[u8]) -> Self {
        let mut traits = Self::default();
        for byte in value {
            match byte {
                b'a'..=b'z' => traits.has_lower = true,
                b'A'..=b'Z' => traits.has_upper = true,
                b'0'..=b'9' => traits.has_digit = true,
                _ => traits.has_other = true,
            }
        }
        traits
    }

    pub(super) fn has_letter(self) -> bool {
        self.has_lower || self.has_upper
    }
}

/// Whether a token with a vendor's prefix but not of the vendor's length is still taken for one.
pub(super) fn is_random(value: &[u8]) -> bool {
    let traits = Traits::of(value);
    traits.has_digit && traits.has_letter() && surprise(value) > 0.0
        || value.len() >= 16 && (traits.has_digit || traits.has_lower && traits.has_upper) && surprise(value) > 8.0
}

/// Whether a text reads like words with something between them. Random ones take more than a bit for each character.
pub(super) fn reads_like_words(text: &[u8]) -> bool {
    #[expect(clippy::cast_precision_loss, reason = "lengths are far below 2^24")]
    let len = text.len() as f32;
    surprise(text) < len / 2.0
}

/// Whether a text can be a piece of a key.
pub(super) fn is_piece(text: &[u8]) -> bool {
    let traits = Traits::of(text);
    !reads_like_words(text)
        && (traits.has_digit && traits.has_letter() || traits.has_lower && traits.has_upper || text.len() >= 16)
}
