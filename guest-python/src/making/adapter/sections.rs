//! Sections of a module, read and put together.

use wasm_encoder::{ConstExpr, EntityType, GlobalSection, GlobalType, ImportSection, ValType};
use wasmparser::TypeRef;
use wasmtime::{Result, bail};

/// The import section with the host call under our name.
pub(super) fn imports(section: wasmparser::ImportSectionReader<'_>) -> Result<ImportSection> {
    let mut imports = ImportSection::new();
    for import in section.into_imports() {
        let import = import?;
        let TypeRef::Func(kind) = import.ty else { bail!("the module imports more than functions") };
        let module = if import.module == "host" { "gloveport" } else { import.module };
        imports.import(module, import.name, EntityType::Function(kind));
    }
    Ok(imports)
}

/// The adapter's globals, all zero before the snapshot.
pub(super) fn added_globals() -> (u32, Vec<u8>) {
    let mut section = GlobalSection::new();
    for _ in 0..6 {
        let kind = GlobalType { val_type: ValType::I32, mutable: true, shared: false };
        section.global(kind, &ConstExpr::i32_const(0));
    }
    entries(&section)
}

/// The entries of a section that was just made, without their count.
pub(super) fn entries(section: &impl wasm_encoder::Encode) -> (u32, Vec<u8>) {
    let mut bytes = Vec::new();
    section.encode(&mut bytes);
    // Sections of the adapter are far below 128 bytes or entries, so size and count are one byte or two.
    let (_, after_size) = read_leb(&bytes).unwrap_or_default();
    let (count, after_count) = read_leb(&bytes[after_size..]).unwrap_or_default();
    (count, bytes[after_size + after_count..].to_vec())
}

/// An unsigned LEB128 number and its length.
pub(super) fn read_leb(bytes: &[u8]) -> Result<(u32, usize)> {
    let mut value = 0_u32;
    for (i, byte) in bytes.iter().take(5).enumerate() {
        value |= u32::from(byte & 0x7f) << (7 * i);
        if byte & 0x80 == 0 {
            return Ok((value, i + 1));
        }
    }
    bail!("a section is damaged")
}

/// A section whose bytes were put together here.
pub(super) struct OwnedSection {
    pub(super) id: u8,
    pub(super) bytes: Vec<u8>,
}

impl wasm_encoder::Encode for OwnedSection {
    fn encode(&self, sink: &mut Vec<u8>) {
        self.bytes.encode(sink);
    }
}

impl wasm_encoder::Section for OwnedSection {
    fn id(&self) -> u8 {
        self.id
    }
}
