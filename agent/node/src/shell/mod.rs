//! What all commands share towards a person or a program at the shell: tables, CSV and
//! JSON of the same answer, colours, times, sparklines, and how wide a text is.
//!
//! Holds always: a command says what its columns are ([`output::Sheet`]), and this prints
//! them; the columns of CSV are those of agent/node/docs/shell.md, which is made of the
//! same list. Knows no socket and no log.

pub mod colour;
pub mod csv;
#[cfg(test)]
pub mod docs;
pub mod gone;
pub mod output;
pub mod sheets;
pub mod spark;
pub mod when;
pub mod width;
