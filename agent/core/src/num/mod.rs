//! Exact sums: what the engine counts never drifts.
