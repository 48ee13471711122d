//! The first page a browser sees: how to reach the broker, and what to try in the first minute.

use crate::errors::Refusal;
use crate::reply::Reply;
use crate::request::Call;

const PAGE: &str = include_str!("front_page.html");

/// GET: one page without anything from elsewhere.
pub(crate) async fn front_page(call: Call) -> Result<Reply, Refusal> {
    let endpoints = call.handle().endpoints();
    Ok(Reply::html(filled(&endpoints.pulsar, &endpoints.http, &call.handle().settings().cluster)))
}

fn filled(pulsar: &str, http: &str, cluster: &str) -> String {
    let values = [("{{pulsar}}", pulsar), ("{{http}}", http), ("{{cluster}}", cluster), ("{{version}}", env!("CARGO_PKG_VERSION"))];
    values.iter().fold(PAGE.to_owned(), |page, (name, value)| page.replace(name, &escaped(value)))
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;").replace('\'', "&#39;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_filled_in_and_needs_nothing_from_elsewhere() {
        let page = filled("pulsar://h:6650", "http://h:8080", "<b>&");
        assert!(page.contains("pulsar://h:6650") && page.contains("&lt;b&gt;&amp;"));
        assert!(!page.contains("{{"), "a placeholder was left");
        for foreign in ["src=", "@import", "url(", "<link", "<script"] {
            assert!(!page.contains(foreign), "{foreign}");
        }
    }
}
