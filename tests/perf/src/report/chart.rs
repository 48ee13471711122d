//! Charts as SVG, in colours that the page (or the file's own style) chooses, so that they can be read in light and in dark.

use std::ops::Range;

use anyhow::anyhow;
use plotters::{
    coord::{
        Shift,
        ranged1d::{KeyPointHint, NoDefaultFormatting, ValueFormatter},
    },
    prelude::*,
};

use super::scales::Scale;

/// A colour by its role. What is drawn has a colour of its own that no chart would use; it is replaced by the role's variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ink {
    Text,
    Muted,
    Grid,
    Shade,
    /// One of the six colours for data; more begin again.
    Series(usize),
}

const SERIES: usize = 6;
const ROLES: [Ink; 4] = [Ink::Text, Ink::Muted, Ink::Grid, Ink::Shade];

impl Ink {
    /// The name of the variable in the style sheet.
    pub(crate) fn variable(self) -> String {
        match self {
            Self::Text => "--ink".to_owned(),
            Self::Muted => "--muted".to_owned(),
            Self::Grid => "--grid".to_owned(),
            Self::Shade => "--shade".to_owned(),
            Self::Series(at) => format!("--s{}", at % SERIES + 1),
        }
    }

    fn drawn(self) -> &'static RGBColor {
        match self {
            Self::Text => &RGBColor(1, 2, 1),
            Self::Muted => &RGBColor(1, 2, 2),
            Self::Grid => &RGBColor(1, 2, 3),
            Self::Shade => &RGBColor(1, 2, 4),
            Self::Series(at) => &DATA[at % SERIES],
        }
    }
}

const DATA: [RGBColor; SERIES] =
    [RGBColor(1, 3, 1), RGBColor(1, 3, 2), RGBColor(1, 3, 3), RGBColor(1, 3, 4), RGBColor(1, 3, 5), RGBColor(1, 3, 6)];

/// A line through points.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) label: String,
    pub(crate) ink: Ink,
    /// Thin lines are single runs of a set, or what matters less.
    pub(crate) thin: bool,
    pub(crate) points: Vec<(f64, f64)>,
}

/// How an axis spells a tick.
pub(crate) type Spell = fn(f64) -> String;

/// What surrounds the lines. Two charts with the same frame can be laid side by side.
#[derive(Clone, Debug)]
pub(crate) struct Frame {
    pub(crate) x: Scale,
    pub(crate) x_spell: Spell,
    pub(crate) x_title: &'static str,
    pub(crate) y: Scale,
    pub(crate) y_spell: Spell,
    pub(crate) y_is_log: bool,
    /// From where to where on the x axis the ground is shaded, such as the measured window.
    pub(crate) shaded: Option<(f64, f64)>,
    /// Width and height.
    pub(crate) size: (u32, u32),
}

pub(crate) const WIDE: (u32, u32) = (540, 290);

/// In the unit of plotters, which is a quarter more than a pixel.
const TEXT_SIZE: u32 = 15;
const LEGEND_HEIGHT: i32 = 22;
/// Twice the mean width of a character of the text.
const CHARACTER: i32 = 13;

/// Draws lines in a frame, with a legend above.
pub(crate) fn lines(frame: &Frame, lines: &[Line]) -> anyhow::Result<String> {
    drawn(frame.size, |area| {
        let legend = legend_rows(lines, frame.size.0 as i32);
        let (above, below) = area.split_vertically(LEGEND_HEIGHT * legend.len().max(1) as i32);
        for (row, labels) in legend.iter().enumerate() {
            draw_legend(&above, row as i32, labels)?;
        }
        draw(&below, frame, lines)
    })
}

pub(crate) type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Draws on an empty ground of this size, and gives the colours their roles.
pub(crate) fn drawn(size: (u32, u32), draw: impl FnOnce(&Area<'_>) -> anyhow::Result<()>) -> anyhow::Result<String> {
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        draw(&area)?;
        area.present().map_err(|error| anyhow!("the chart cannot be drawn: {error}"))?;
    }
    Ok(with_roles(svg))
}

fn with_roles(mut svg: String) -> String {
    for ink in ROLES.into_iter().chain((0..SERIES).map(Ink::Series)) {
        let RGBColor(r, g, b) = *ink.drawn();
        svg = svg.replace(&format!("\"#{r:02X}{g:02X}{b:02X}\""), &format!("\"var({})\"", ink.variable()));
    }
    svg
}

pub(crate) fn text_style(ink: Ink) -> TextStyle<'static> {
    TextStyle::from(("sans-serif", TEXT_SIZE)).color(ink.drawn())
}

pub(crate) fn filled(ink: Ink, opacity: f64) -> ShapeStyle {
    ink.drawn().mix(opacity).filled()
}

/// The labels of each line of the legend; lines that share a label share its place.
fn legend_rows(lines: &[Line], width: i32) -> Vec<Vec<(i32, String, Ink)>> {
    let mut rows: Vec<Vec<(i32, String, Ink)>> = Vec::new();
    let mut x = width;
    for (at, line) in lines.iter().enumerate() {
        if line.label.is_empty() || lines.iter().take(at).any(|before| before.label == line.label) {
            continue;
        }
        let needed = 38 + CHARACTER * line.label.chars().count() as i32 / 2;
        if x + needed > width {
            rows.push(Vec::new());
            x = 8;
        }
        if let Some(row) = rows.last_mut() {
            row.push((x, line.label.clone(), line.ink));
        }
        x += needed;
    }
    rows
}

fn draw_legend(area: &Area<'_>, row: i32, labels: &[(i32, String, Ink)]) -> anyhow::Result<()> {
    let middle = row * LEGEND_HEIGHT + LEGEND_HEIGHT / 2;
    for (x, label, ink) in labels {
        area.draw(&Rectangle::new([(*x, middle - 2), (x + 18, middle + 2)], filled(*ink, 1.0))).map_err(failed)?;
        area.draw(&Text::new(label.clone(), (x + 24, middle - 6), text_style(Ink::Text))).map_err(failed)?;
    }
    Ok(())
}

pub(crate) fn failed(error: impl std::fmt::Display) -> anyhow::Error {
    anyhow!("the chart cannot be drawn: {error}")
}

/// A scale as plotters wants it.
struct Axis<'a> {
    scale: &'a Scale,
    spell: Spell,
    is_log: bool,
}

impl Ranged for Axis<'_> {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, (begin, end): (i32, i32)) -> i32 {
        let place = |value: f64| if self.is_log { value.max(f64::MIN_POSITIVE).ln() } else { value };
        let (from, to) = (place(self.scale.from), place(self.scale.to));
        let share = (place(*value) - from) / (to - from);
        begin + (share * f64::from(end - begin)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, _hint: Hint) -> Vec<f64> {
        self.scale.ticks.clone()
    }

    fn range(&self) -> Range<f64> {
        self.scale.from..self.scale.to
    }
}

impl ValueFormatter<f64> for Axis<'_> {
    fn format(value: &f64) -> String {
        value.to_string()
    }

    fn format_ext(&self, value: &f64) -> String {
        (self.spell)(*value)
    }
}

fn draw(area: &Area<'_>, frame: &Frame, lines: &[Line]) -> anyhow::Result<()> {
    let x = Axis { scale: &frame.x, spell: frame.x_spell, is_log: false };
    let y = Axis { scale: &frame.y, spell: frame.y_spell, is_log: frame.y_is_log };
    let mut chart = ChartBuilder::on(area)
        .margin_right(32)
        .margin_top(6)
        .set_label_area_size(LabelAreaPosition::Left, 58)
        .set_label_area_size(LabelAreaPosition::Bottom, 42)
        .build_cartesian_2d(x, y)
        .map_err(failed)?;
    if let Some((from, to)) = frame.shaded {
        let corners = [(from.max(frame.x.from), frame.y.from), (to.min(frame.x.to), frame.y.to)];
        chart.draw_series([Rectangle::new(corners, filled(Ink::Shade, 1.0))]).map_err(failed)?;
    }
    chart
        .configure_mesh()
        .bold_line_style(*Ink::Grid.drawn())
        .light_line_style(TRANSPARENT)
        .axis_style(*Ink::Muted.drawn())
        .label_style(text_style(Ink::Muted))
        .axis_desc_style(text_style(Ink::Muted))
        .x_desc(frame.x_title)
        .draw()
        .map_err(failed)?;
    for line in lines {
        let style = if line.thin { line.ink.drawn().mix(0.75).stroke_width(1) } else { line.ink.drawn().stroke_width(2) };
        let inside = line.points.iter().map(|(x, y)| (*x, y.clamp(frame.y.from, frame.y.to)));
        let inside = inside.filter(|(x, _)| *x >= frame.x.from && *x <= frame.x.to);
        chart.draw_series(LineSeries::new(inside, style)).map_err(failed)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::figures::tick;

    fn frame() -> Frame {
        Frame {
            x: Scale::exact(0.0, 10.0, 5.0),
            x_spell: tick,
            x_title: "seconds",
            y: Scale::linear(0.0, 400.0, 4.0),
            y_spell: tick,
            y_is_log: false,
            shaded: Some((2.0, 8.0)),
            size: WIDE,
        }
    }

    #[test]
    fn colours_are_left_to_the_page() {
        let line = Line { label: "published".to_owned(), ink: Ink::Series(0), thin: false, points: vec![(0.0, 1.0), (9.0, 300.0)] };
        let svg = lines(&frame(), &[line]).unwrap();
        assert!(svg.contains("var(--s1)") && svg.contains("var(--ink)") && svg.contains("var(--shade)"), "{svg}");
        let fixed = regex_lite::Regex::new("(fill|stroke)=\"#[0-9A-Fa-f]{6}\"").unwrap();
        let fixed: Vec<&str> = fixed.find_iter(&svg).map(|found| found.as_str()).collect();
        assert!(fixed.is_empty(), "{fixed:?}");
    }

    #[test]
    fn a_label_is_told_once() {
        let line = |y| Line { label: "A".to_owned(), ink: Ink::Series(0), thin: true, points: vec![(0.0, y)] };
        assert_eq!(legend_rows(&[line(1.0), line(2.0)], 700).concat().len(), 1);
    }

    #[test]
    fn a_long_legend_takes_more_rows() {
        let line = |at: usize| Line { label: format!("application {at}"), ink: Ink::Series(at), thin: true, points: Vec::new() };
        let lines: Vec<Line> = (0..12).map(line).collect();
        let rows = legend_rows(&lines, 700);
        assert!(rows.len() > 1 && rows.concat().len() == 12, "{rows:?}");
    }
}
