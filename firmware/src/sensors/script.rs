//! Tests only: pieces of what a mocked bus shall see.

use embedded_hal::i2c::{ErrorKind, NoAcknowledgeSource};
use embedded_hal_mock::eh1::i2c::{Mock, Transaction};
use std::vec;
use std::vec::Vec;

const NACK: ErrorKind = ErrorKind::NoAcknowledge(NoAcknowledgeSource::Address);

pub(crate) fn ack(address: u8, bytes: &[u8]) -> Vec<Transaction> {
    vec![Transaction::write(address, bytes.to_vec())]
}

pub(crate) fn nack_write(address: u8, bytes: &[u8]) -> Vec<Transaction> {
    vec![Transaction::write(address, bytes.to_vec()).with_error(NACK)]
}

pub(crate) fn answer(address: u8, bytes: &[u8]) -> Vec<Transaction> {
    vec![Transaction::read(address, bytes.to_vec())]
}

pub(crate) fn nack_read(address: u8, count: usize) -> Vec<Transaction> {
    vec![Transaction::read(address, vec![0; count]).with_error(NACK)]
}

/// A read of `bytes` from `register` on.
pub(crate) fn register(address: u8, register: u8, bytes: &[u8]) -> Vec<Transaction> {
    vec![Transaction::write_read(
        address,
        vec![register],
        bytes.to_vec(),
    )]
}

pub(crate) fn nack_register(address: u8, register: u8, count: usize) -> Vec<Transaction> {
    vec![Transaction::write_read(address, vec![register], vec![0; count]).with_error(NACK)]
}

/// All of the script was used, so the tries are counted too.
pub(crate) fn done(mut bus: Mock) {
    bus.done();
}
