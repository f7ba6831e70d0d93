//! The OpenAPI 3.1 document, made of the table of paths and of the types of answers.
//! `forebay openapi` prints it, the API serves it, a test keeps
//! `agent/node/docs/openapi.json` true.

use schemars::generate::SchemaSettings;
use schemars::{Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

use super::cursor;
use super::endpoints::{ALL, Answer, Endpoint, Kind, Need, Param};
use super::examples;
use super::given::NAME_BYTES_MAX;
use super::places;
use super::problem::Kind as Wrong;
use super::types::ProblemAnswer;

/// What any request may get, beside what its path may give.
const ALWAYS: [Wrong; 13] = [
    Wrong::BadParameter,
    Wrong::NoToken,
    Wrong::CrossSite,
    Wrong::MethodNotAllowed,
    Wrong::NotAcceptable,
    Wrong::UrlTooLong,
    Wrong::WrongHost,
    Wrong::TooManyRequests,
    Wrong::HeadersTooLong,
    Wrong::Failed,
    Wrong::Busy,
    Wrong::TooSlow,
    Wrong::Stopping,
];

/// The document.
#[must_use]
pub fn document() -> Value {
    // Answers are written, not read: what may be left out is not required.
    let settings = SchemaSettings::draft2020_12()
        .for_serialize()
        .with(|settings| settings.definitions_path = "/components/schemas".into());
    let mut schemas = settings.into_generator();
    let problem = schemas.subschema_for::<ProblemAnswer>();
    let mut paths = Map::new();
    for endpoint in ALL {
        let operation = operation(endpoint, &mut schemas, &problem);
        paths.insert(endpoint.path.to_owned(), json!({ "get": operation }));
    }
    let definitions: Map<String, Value> = schemas.take_definitions(true).into_iter().collect();
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Forebay",
            "version": env!("CARGO_PKG_VERSION"),
            "summary": "Sensor readings of a gateway: what is, what was, and whether all of it is there.",
            "description": "Nothing here changes the agent. Times are RFC 3339 in UTC. What cannot be \
                            answered is answered with application/problem+json, whose detail says what \
                            to change. Prometheus's queries stand beside these: agent/node/docs/prometheus.md.",
            "license": { "name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0" },
        },
        "servers": [{ "url": "http://127.0.0.1:7380" }],
        "security": [{}, { "token": [] }],
        "paths": paths,
        "components": {
            "schemas": definitions,
            "securitySchemes": {
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "Where token_file is given in [api]; not over the Unix socket.",
                },
            },
        },
    })
}

/// As it is kept in the repository.
#[must_use]
pub fn text() -> String {
    format!("{:#}\n", document())
}

fn operation(endpoint: &Endpoint, schemas: &mut SchemaGenerator, problem: &Schema) -> Value {
    let mut responses = Map::new();
    responses.insert("200".to_owned(), good(endpoint, schemas));
    for kind in ALWAYS.iter().chain(endpoint.problems) {
        // One entry per status: titles of all kinds that have it.
        let (status, _, title) = kind.about();
        let entry = responses.entry(status.to_string()).or_insert_with(|| {
            json!({
                "description": "",
                "content": { "application/problem+json": { "schema": problem } },
            })
        });
        let said = entry["description"].as_str().unwrap_or_default();
        let all = if said.is_empty() {
            format!("{title}.")
        } else {
            format!("{said} {title}.")
        };
        entry["description"] = all.into();
    }
    json!({
        "operationId": endpoint.id,
        "summary": endpoint.summary,
        "description": endpoint.about,
        "parameters": parameters(endpoint),
        "responses": responses,
    })
}

fn good(endpoint: &Endpoint, schemas: &mut SchemaGenerator) -> Value {
    match &endpoint.answer {
        Answer::Json { schema, csv } => {
            let mut content = Map::new();
            let schema = schema(schemas);
            let (_, example) = examples::of(endpoint.id);
            let example: Value = serde_json::from_str(example).unwrap_or_default();
            let json = json!({ "schema": schema, "example": example });
            content.insert("application/json".into(), json);
            if *csv {
                let text = json!({ "schema": { "type": "string" } });
                content.insert("text/csv".into(), text);
            }
            json!({ "description": endpoint.summary, "content": content })
        }
        Answer::Text { about, example } => json!({
            "description": about,
            "content": {
                "text/plain": { "schema": { "type": "string" }, "example": example },
            },
        }),
        Answer::Events => json!({
            "description": endpoint.summary,
            "content": { "text/event-stream": { "schema": { "type": "string" } } },
        }),
        Answer::Document => json!({
            "description": endpoint.summary,
            "content": { "application/json": { "schema": { "type": "object" } } },
        }),
    }
}

fn parameters(endpoint: &Endpoint) -> Vec<Value> {
    let mut all = Vec::new();
    for name in ["device"] {
        if endpoint.path.contains(&format!("{{{name}}}")) {
            all.push(json!({
                "name": name,
                "in": "path",
                "required": true,
                "description": "Name or uid.",
                "schema": { "type": "string", "minLength": 1, "maxLength": NAME_BYTES_MAX },
                "example": "boiler",
            }));
        }
    }
    all.extend(endpoint.params.iter().map(parameter));
    if matches!(endpoint.answer, Answer::Events) {
        all.push(json!({
            "name": "Last-Event-ID",
            "in": "header",
            "required": false,
            "description": "The id of the last event that was taken: it goes on behind that one, whatever from says.",
            "schema": { "type": "string", "pattern": places::PATTERN },
        }));
    }
    all
}

fn parameter(param: &Param) -> Value {
    let mut schema = schema_of(param.kind);
    if let Need::Default(text) = param.need {
        schema["default"] = match param.kind {
            Kind::Count { .. } => text.parse::<u64>().map_or(Value::Null, Value::from),
            Kind::Name | Kind::Time | Kind::Span | Kind::Word(_) | Kind::Cursor | Kind::Place => {
                text.into()
            }
        };
    }
    let example: Value = match param.kind {
        Kind::Count { .. } => param
            .example
            .parse::<u64>()
            .map_or(Value::Null, Value::from),
        Kind::Name | Kind::Time | Kind::Span | Kind::Word(_) | Kind::Cursor | Kind::Place => {
            param.example.into()
        }
    };
    let many = match param.need {
        Need::Many { most } => Some((0, most)),
        Need::Some { most } => Some((1, most)),
        Need::Once | Need::Maybe | Need::Default(_) => None,
    };
    let (schema, example) = match many {
        None => (schema, example),
        Some((least, most)) => (
            json!({ "type": "array", "items": schema, "minItems": least, "maxItems": most }),
            json!([example]),
        ),
    };
    json!({
        "name": param.name,
        "in": "query",
        "required": matches!(param.need, Need::Once | Need::Some { .. }),
        "description": param.about,
        "schema": schema,
        "example": example,
    })
}

fn schema_of(kind: Kind) -> Value {
    match kind {
        Kind::Name => json!({
            "type": "string", "minLength": 1, "maxLength": NAME_BYTES_MAX,
        }),
        Kind::Time => json!({
            "type": "string",
            "anyOf": [
                { "const": "now" },
                { "pattern": "^-?[0-9]{1,18}$" },
                { "pattern": "^-[0-9]{1,5}(us|ms|s|m|h|d|w)$" },
                { "format": "date-time" },
            ],
        }),
        Kind::Span => json!({
            "type": "string", "pattern": "^[1-9][0-9]{0,2}(us|ms|s|m|h|d|w)$",
        }),
        Kind::Count { most } => json!({ "type": "integer", "minimum": 1, "maximum": most }),
        Kind::Word(words) => json!({ "type": "string", "enum": words }),
        Kind::Cursor => json!({ "type": "string", "pattern": cursor::PATTERN }),
        Kind::Place => json!({ "type": "string", "pattern": places::PATTERN }),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn the_document_is_not_stale() {
        let text = text();
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/openapi.json");
        if std::env::var_os("UPDATE_GENERATED").is_some() {
            std::fs::write(&path, &text).unwrap();
        }
        let kept = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            kept == text,
            "agent/node/docs/openapi.json is stale: UPDATE_GENERATED=1 cargo test -p forebay --lib api"
        );
    }

    #[test]
    fn every_reference_leads_somewhere() {
        let document = document();
        let mut seen = 0;
        let mut waiting = vec![&document];
        while let Some(value) = waiting.pop() {
            if let Some(to) = value.get("$ref").and_then(Value::as_str) {
                let pointer = to.strip_prefix('#').unwrap();
                assert!(document.pointer(pointer).is_some(), "{to}");
                seen += 1;
            }
            waiting.extend(value.as_object().into_iter().flat_map(Map::values));
            waiting.extend(value.as_array().into_iter().flatten());
        }
        assert!(seen > 20, "{seen}");
    }
}
