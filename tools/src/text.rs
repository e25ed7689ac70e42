//! Bytes to text and back: byte-order marks, UTF-16, line endings, and names for what is no text. Pure.

use bytes::Bytes;

/// How a text file is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Encoding {
    /// UTF-8, with or without a byte-order mark.
    Utf8 { bom: bool },
    /// UTF-16 with its mark, low byte first.
    Utf16Le,
    /// UTF-16 with its mark, high byte first.
    Utf16Be,
}

/// Bytes of the start of a file in which a NUL means that it is no text.
pub(crate) const SNIFF: usize = 8 << 10;

impl Encoding {
    /// Tells the encoding by the mark at the start.
    pub(crate) fn sniff(start: &[u8]) -> Self {
        match start {
            [0xef, 0xbb, 0xbf, ..] => Self::Utf8 { bom: true },
            [0xff, 0xfe, ..] => Self::Utf16Le,
            [0xfe, 0xff, ..] => Self::Utf16Be,
            _ => Self::Utf8 { bom: false },
        }
    }

    /// Bytes of the mark.
    pub(crate) fn mark_len(self) -> usize {
        match self {
            Self::Utf8 { bom: false } => 0,
            Self::Utf8 { bom: true } => 3,
            Self::Utf16Le | Self::Utf16Be => 2,
        }
    }

    /// The text as it is stored.
    pub(crate) fn encode(self, text: &str) -> Bytes {
        match self {
            Self::Utf8 { bom: false } => Bytes::copy_from_slice(text.as_bytes()),
            Self::Utf8 { bom: true } => [b"\xef\xbb\xbf", text.as_bytes()].concat().into(),
            Self::Utf16Le => utf16(text, u16::to_le_bytes),
            Self::Utf16Be => utf16(text, u16::to_be_bytes),
        }
    }

    /// The text of a whole file, or `None` if it is not what the mark says.
    pub(crate) fn decode(self, bytes: &[u8]) -> Option<String> {
        let body = bytes.get(self.mark_len()..)?;
        match self {
            Self::Utf8 { .. } => String::from_utf8(body.to_vec()).ok(),
            Self::Utf16Le => from_utf16(body, u16::from_le_bytes),
            Self::Utf16Be => from_utf16(body, u16::from_be_bytes),
        }
    }
}

fn utf16(text: &str, bytes: fn(u16) -> [u8; 2]) -> Bytes {
    std::iter::once(0xfeff).chain(text.encode_utf16()).flat_map(bytes).collect()
}

fn from_utf16(body: &[u8], unit: fn([u8; 2]) -> u16) -> Option<String> {
    let (pairs, rest) = body.as_chunks::<2>();
    let units = pairs.iter().map(|pair| unit(*pair));
    rest.is_empty().then(|| char::decode_utf16(units).collect::<Result<String, _>>().ok()).flatten()
}

/// Whether a file with this start is no text. UTF-16 is text although it is full of NULs.
pub(crate) fn is_binary(start: &[u8]) -> bool {
    matches!(Encoding::sniff(start), Encoding::Utf8 { .. })
        && memchr::memchr(0, &start[..start.len().min(SNIFF)]).is_some()
}

/// What a binary file is, by its first bytes.
pub(crate) fn binary_type(start: &[u8]) -> &'static str {
    if start.get(257..262) == Some(b"ustar") {
        return "tar archive";
    }
    match (start.get(4..8), start.get(8..12)) {
        (Some(b"ftyp"), _) => return "MP4 or QuickTime media",
        (_, Some(b"WEBP")) if start.starts_with(b"RIFF") => return "WebP image",
        (_, Some(b"WAVE")) if start.starts_with(b"RIFF") => return "WAV audio",
        _ => {}
    }
    MAGIC.iter().find(|(magic, _)| start.starts_with(magic)).map_or("binary data", |(_, name)| name)
}

const MAGIC: &[(&[u8], &str)] = &[
    (b"\x89PNG\r\n\x1a\n", "PNG image"),
    (b"\xff\xd8\xff", "JPEG image"),
    (b"GIF8", "GIF image"),
    (b"BM", "BMP image"),
    (b"II*\0", "TIFF image"),
    (b"MM\0*", "TIFF image"),
    (b"\0\0\x01\0", "icon"),
    (b"%PDF-", "PDF document"),
    (b"\xd0\xcf\x11\xe0", "Microsoft Office document"),
    (b"PK\x03\x04", "ZIP archive or Office document"),
    (b"PK\x05\x06", "ZIP archive"),
    (b"\x1f\x8b", "gzip archive"),
    (b"BZh", "bzip2 archive"),
    (b"\xfd7zXZ\0", "xz archive"),
    (b"\x28\xb5\x2f\xfd", "zstd archive"),
    (b"7z\xbc\xaf\x27\x1c", "7z archive"),
    (b"Rar!", "RAR archive"),
    (b"\x7fELF", "ELF executable or library"),
    (b"MZ", "Windows executable or library"),
    (b"\xfe\xed\xfa", "Mach-O executable or library"),
    (b"\xcf\xfa\xed\xfe", "Mach-O executable or library"),
    (b"\xca\xfe\xba\xbe", "Java class or Mach-O library"),
    (b"\0asm", "WebAssembly module"),
    (b"SQLite format 3\0", "SQLite database"),
    (b"\x93NUMPY", "NumPy array"),
    (b"PAR1", "Parquet table"),
    (b"OggS", "Ogg media"),
    (b"fLaC", "FLAC audio"),
    (b"ID3", "MP3 audio"),
    (b"\x1aE\xdf\xa3", "Matroska media"),
    (b"wOF2", "WOFF font"),
    (b"wOFF", "WOFF font"),
    (b"\0\x01\0\0", "TrueType font"),
    (b"OTTO", "OpenType font"),
    (b"!<arch>\n", "static library"),
];

/// Whether most lines of a text end in CR LF.
pub(crate) fn is_crlf(text: &[u8]) -> bool {
    let ends = memchr::memchr_iter(b'\n', text);
    let (mut with_cr, mut all) = (0usize, 0usize);
    for end in ends {
        all += 1;
        with_cr += usize::from(end > 0 && text[end - 1] == b'\r');
    }
    all > 0 && with_cr * 2 > all
}

/// Every line end as LF.
pub(crate) fn to_lf(text: &str) -> String {
    text.replace("\r\n", "\n")
}

/// Every line end as CR LF, those that are already included.
pub(crate) fn to_crlf(text: &str) -> String {
    to_lf(text).replace('\n', "\r\n")
}

/// A number with thousands commas.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let first = digits.len() % 3;
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && at % 3 == first {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// The first `max` characters.
pub(crate) fn first_chars(text: &str, max: usize) -> &str {
    text.char_indices().nth(max).map_or(text, |(end, _)| &text[..end])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_encoding_reads_back(text in ".*", which in 0usize..4) {
            let encoding =
                [Encoding::Utf8 { bom: false }, Encoding::Utf8 { bom: true }, Encoding::Utf16Le, Encoding::Utf16Be][which];
            let stored = encoding.encode(&text);
            prop_assert_eq!(encoding.decode(&stored), Some(text));
        }

        #[test]
        fn crlf_is_never_doubled(text in "[a\r\n]*") {
            let crlf = to_crlf(&text);
            prop_assert_eq!(to_crlf(&crlf), crlf.clone());
            prop_assert_eq!(to_lf(&crlf), to_lf(&text));
        }
    }

    #[test]
    fn binary_files_are_named() {
        assert_eq!(binary_type(b"\x89PNG\r\n\x1a\n...."), "PNG image");
        assert_eq!(binary_type(b"\x7fELF\x02"), "ELF executable or library");
        assert_eq!(binary_type(b"\x00\x00\x00\x00"), "binary data");
        assert!(is_binary(b"a\0b") && !is_binary(b"\xff\xfea\0") && !is_binary(b"text"));
        assert_eq!(["0", "999", "1,000", "1,234,567"].map(str::to_owned), [0, 999, 1000, 1_234_567].map(grouped));
    }
}
