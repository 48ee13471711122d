//! What the pages of runs and of comparisons share: one file, with its style inside and nothing fetched from anywhere.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::run_charts::Chart;

const STYLE: &str = include_str!("page.css");

/// A whole page.
pub(crate) fn page(title: &str, body: &Markup) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                // Without an icon of its own a page asks its origin for one.
                link rel="icon" href="data:,";
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body { main { (body) } }
        }
    };
    page.into_string()
}

/// A chart as a file of its own, which has to bring its colours.
pub(crate) fn standalone(svg: &str) -> String {
    let colours = STYLE.split_once("* {").map_or(STYLE, |(colours, _)| colours);
    let style = format!("<style>{colours}svg{{background:var(--card)}}</style>");
    match svg.find('>') {
        Some(end) => format!("{}{style}{}", &svg[..=end], &svg[end + 1..]),
        None => svg.to_owned(),
    }
}

/// A chart under its title.
pub(crate) fn figure(chart: &Chart) -> Markup {
    html! {
        figure id=(chart.id) {
            h3 { (chart.title) }
            p .note { (chart.note) }
            (PreEscaped(&chart.svg))
        }
    }
}

/// One figure that stands out.
pub(crate) struct Tile {
    pub(crate) name: &'static str,
    pub(crate) value: String,
}

/// The figures to begin with.
pub(crate) fn tiles(tiles: &[Tile]) -> Markup {
    html! {
        div .tiles {
            @for tile in tiles {
                div .tile {
                    div .value { (tile.value) }
                    div .name { (tile.name) }
                }
            }
        }
    }
}

/// A table: the first column names, the others are figures.
pub(crate) fn table(head: &[&str], rows: &[Vec<String>]) -> Markup {
    html! {
        div .wide {
            table {
                thead { tr { @for cell in head { th { (cell) } } } }
                tbody { @for row in rows { tr { @for cell in row { td { (cell) } } } } }
            }
        }
    }
}

/// A table of names and what they stand for.
pub(crate) fn definitions(rows: &[(String, String)]) -> Markup {
    html! {
        div .wide {
            table {
                tbody { @for (name, value) in rows { tr { td { (name) } td .text { (value) } } } }
            }
        }
    }
}

/// Lines in a box of one of the styles `bad`, `warn` or nothing.
pub(crate) fn lines_in_box(style: &str, title: &str, lines: &[String]) -> Markup {
    html! {
        @if !lines.is_empty() {
            div class={ "box " (style) } {
                strong { (title) }
                ul { @for line in lines { li { (line) } } }
            }
        }
    }
}
