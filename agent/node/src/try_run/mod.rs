//! `forebay try`: the engine over recorded data, without an agent.
