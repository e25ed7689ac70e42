//! Tests of the pipeline as a whole. Those named after a row of the threat catalogue (`s1_…`, `r14_…`) say in their
//! first line what a failure would look like. Keys are generated when a test runs; none is written down here.

mod cuts;
mod families;
mod known;
mod properties;
mod shapes;
mod stream;
mod strip;
mod support;
