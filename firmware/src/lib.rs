//! The device half of Forebay: sampler, ring and link session, sans-IO.
#![no_std]
#![forbid(unsafe_code)]
