//! What routes ask the agent.

use serde_json::{Value, json};

use super::App;
use super::problem::{Kind, Problem};

/// The status, as `forebay status --json` shows it.
pub(super) async fn status(app: &App) -> Result<Value, Problem> {
    let answer = app.agent.ask(json!({ "query": "status" })).await;
    answer.map_err(|text| Problem::new(Kind::Stopping, text))
}
