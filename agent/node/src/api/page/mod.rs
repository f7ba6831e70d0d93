//! The page: HTML, style and modules that stand in the binary, and the routes that give
//! them out. It asks the same API as everybody; nothing here knows an agent.
//!
//! Holds always: what a browser gets names nothing outside of this server, and its
//! Content-Security-Policy lets nothing else run. An address of a part has the version of
//! all parts in it, so that one may be kept for ever and is never mixed with another's.
//! Bound: the parts, which are fixed when it is built.

use std::sync::LazyLock;

use axum::Router;
use axum::extract::Path;
use axum::http::{HeaderMap, HeaderName, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;

/// Nothing from elsewhere, nothing inline, and in no frame.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
                      connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
/// Where the parts are, in front of their version.
const PREFIX: &str = "/page";
/// The part that loads the page anew: also pages of other versions get it.
const RENEW: &str = "renew.js";
/// Stands in the HTML for the address of the parts.
const PLACE: &str = "{{assets}}";

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const JS: &str = "text/javascript; charset=utf-8";
const SVG: &str = "image/svg+xml";

static INDEX: &str = include_str!("assets/index.html");

/// A part with its name and media type.
struct Asset {
    name: &'static str,
    media_type: &'static str,
    bytes: &'static [u8],
}

macro_rules! asset {
    ($name:literal, $media_type:expr, $path:literal) => {
        Asset {
            name: $name,
            media_type: $media_type,
            bytes: include_bytes!($path),
        }
    };
}

static ASSETS: [Asset; 22] = [
    asset!("icon.svg", SVG, "assets/icon.svg"),
    asset!("page.css", CSS, "assets/page.css"),
    asset!("dark.css", CSS, "assets/dark.css"),
    asset!("alarms.js", JS, "assets/js/alarms.js"),
    asset!("api.js", JS, "assets/js/api.js"),
    asset!("board.js", JS, "assets/js/board.js"),
    asset!("chart.js", JS, "assets/js/chart.js"),
    asset!("devices.js", JS, "assets/js/devices.js"),
    asset!("dom.js", JS, "assets/js/dom.js"),
    asset!("format.js", JS, "assets/js/format.js"),
    asset!("freshness.js", JS, "assets/js/freshness.js"),
    asset!("ledger.js", JS, "assets/js/ledger.js"),
    asset!("links.js", JS, "assets/js/links.js"),
    asset!("main.js", JS, "assets/js/main.js"),
    asset!("model.js", JS, "assets/js/model.js"),
    asset!("plot.js", JS, "assets/js/plot.js"),
    asset!("renew.js", JS, "assets/js/renew.js"),
    asset!("scheme.js", JS, "assets/js/scheme.js"),
    asset!("series.js", JS, "assets/js/series.js"),
    asset!("uPlot.iife.min.js", JS, "vendor/uplot/uPlot.iife.min.js"),
    asset!("uPlot.min.css", CSS, "vendor/uplot/uPlot.min.css"),
    asset!(
        "uPlot.LICENSE.txt",
        "text/plain; charset=utf-8",
        "vendor/uplot/LICENSE"
    ),
];

/// The HTML with the address of its parts, and the version that is in it.
static PAGE: LazyLock<(String, String)> = LazyLock::new(|| {
    let version = hash();
    let html = INDEX.replace(PLACE, &format!("{PREFIX}/{version}"));
    (html, version)
});

/// Tells the pages of programs apart.
pub(super) fn version() -> &'static str {
    &PAGE.1
}

/// FNV-1a over all parts and the HTML.
fn hash() -> String {
    let parts = ASSETS
        .iter()
        .flat_map(|asset| [asset.name.as_bytes(), asset.bytes]);
    let bytes = parts.chain([INDEX.as_bytes()]).flatten();
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    format!("{hash:016x}")
}

/// The page at `/`, and its parts below `/page`. Without state: it may be merged anywhere.
pub(super) fn routes() -> Router {
    Router::new()
        .route("/", get(index))
        .route("/page/{version}/{name}", get(part))
}

async fn index(asked: HeaderMap) -> Response {
    let (html, version) = &*PAGE;
    answer(&asked, version, "no-cache", HTML, html.as_bytes())
}

async fn part(Path((version, name)): Path<(String, String)>, asked: HeaderMap) -> Response {
    let asset = ASSETS.iter().find(|asset| asset.name == name);
    let is_ours = version == PAGE.1;
    match asset.filter(|asset| is_ours || asset.name == RENEW) {
        Some(asset) => {
            let keep = if is_ours {
                "public, max-age=31536000, immutable"
            } else {
                "no-store"
            };
            answer(&asked, &PAGE.1, keep, asset.media_type, asset.bytes)
        }
        // A page from before this program was replaced: what is its first part sees to it.
        None => (StatusCode::NOT_FOUND, "no such part of the page\n").into_response(),
    }
}

fn answer(
    asked: &HeaderMap,
    version: &str,
    keep: &'static str,
    media_type: &'static str,
    bytes: &'static [u8],
) -> Response {
    let tag = format!("\"{version}\"");
    let fixed: [(HeaderName, &str); 6] = [
        (header::CACHE_CONTROL, keep),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::CONTENT_TYPE, media_type),
    ];
    let known = asked.get_all(header::IF_NONE_MATCH).iter();
    let mut known = known.filter_map(|value| value.to_str().ok());
    let is_known = known.any(|tags| {
        tags.split(',')
            .any(|one| one.trim() == tag || one.trim() == "*")
    });
    let tag = [(header::ETAG, tag)];
    if is_known {
        (StatusCode::NOT_MODIFIED, fixed, tag).into_response()
    } else {
        (fixed, tag, bytes).into_response()
    }
}

#[cfg(test)]
mod tests;
