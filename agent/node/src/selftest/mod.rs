//! `forebay selftest`: the whole way of a reading on the buyer's own gateway and disk,
//! with the real agent as a process of its own, under faults that are asked for; counts
//! at the end what was lost, came twice or late.
//!
//! Always holds: the user's data is not touched; nothing listens off loopback; what is
//! made is removed, but for a run that waits for a pulled plug. Bounds: limits.rs.

pub mod limits;

mod dice;
mod plan;
mod witness;

mod evidence;

mod outcome;

mod place;

mod child;

mod bench;

mod run;

mod power;

use std::process::ExitCode;

pub use plan::{Plan, PowerCut};

use self::outcome::Outcome;
use crate::exit::Exit;
use crate::shell::output::{self, Form};
use crate::shell::sheets;
use crate::terminal::{fail, print_line};

/// Runs a plan and shows what it came to.
#[must_use]
pub fn run(plan: &Plan) -> ExitCode {
    let outcome = match plan.power_cut {
        PowerCut::None | PowerCut::Kill => run::run(plan),
        PowerCut::Pull => return power::pull(plan),
    };
    conclude(plan, outcome)
}

/// Looks at what a pulled plug left.
#[must_use]
pub fn resume(plan: &Plan) -> ExitCode {
    conclude(plan, power::resume(plan))
}

fn conclude(plan: &Plan, outcome: Result<Outcome, String>) -> ExitCode {
    let outcome = match outcome {
        Ok(outcome) => outcome,
        Err(text) => return fail(&text),
    };
    let shown = match plan.form {
        Form::Json => print_line(&outcome.to_json().to_string()),
        Form::Csv => output::print(&sheets::FIGURES.csv(&output::figures(&outcome.to_json()))),
        Form::Text => print_line(&outcome.text()),
    };
    match (outcome.has_passed(), outcome.is_cut_short) {
        (true, _) => shown,
        (false, true) => Exit::Failed.into(),
        (false, false) => Exit::Found.into(),
    }
}
