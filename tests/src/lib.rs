//! Simulated world and reference models.
