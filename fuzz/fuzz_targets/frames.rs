//! Frames of a relay: any bytes, cut anywhere, give the same frames, and none is longer than allowed.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|pieces: Vec<Vec<u8>>| gloveport_backends::fuzzing::frames(&pieces));
