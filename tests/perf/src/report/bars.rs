//! Horizontal bars: one figure for each of several things.

use plotters::prelude::*;

use super::{
    chart::{Ink, drawn, failed, filled, text_style},
    figures,
    scales::Scale,
};

/// One bar.
#[derive(Clone, Debug)]
pub(crate) struct Bar {
    pub(crate) label: String,
    pub(crate) value: f64,
    pub(crate) ink: Ink,
}

const ROW: i32 = 18;
const LABELS: i32 = 136;
const VALUES: i32 = 64;
const AXIS: i32 = 24;
const GAP: i32 = 6;
/// About the width of a digit.
const CHARACTER: i32 = 7;

/// Draws bars of per cent from zero to `most`, with each value behind its bar; `marked` is a line through all of them.
pub(crate) fn bars(bars: &[Bar], most: f64, marked: Option<f64>, width: u32) -> anyhow::Result<String> {
    let height = ROW * bars.len() as i32 + AXIS;
    let scale = Scale::exact(0.0, most, 5.0);
    let room = f64::from(width as i32 - LABELS - VALUES);
    let x = |value: f64| LABELS + (room * (value / scale.to).clamp(0.0, 1.0)).round() as i32;
    drawn((width, height as u32), |area| {
        let bottom = height - AXIS;
        for tick in &scale.ticks {
            let line = PathElement::new([(x(*tick), 0), (x(*tick), bottom)], filled(Ink::Grid, 1.0));
            area.draw(&line).map_err(failed)?;
            let spelt = format!("{} %", figures::tick(*tick));
            let left = x(*tick) - 3 * spelt.len() as i32;
            area.draw(&Text::new(spelt, (left, bottom + 6), text_style(Ink::Muted))).map_err(failed)?;
        }
        for (row, bar) in bars.iter().enumerate() {
            let top = row as i32 * ROW;
            area.draw(&Text::new(bar.label.clone(), (4, top + 3), text_style(Ink::Text))).map_err(failed)?;
            let corners = [(LABELS, top + 3), (x(bar.value).max(LABELS + 1), top + ROW - 3)];
            area.draw(&Rectangle::new(corners, filled(bar.ink, 1.0))).map_err(failed)?;
            let spelt = format!("{:.1} %", bar.value);
            // A line through a number makes it unreadable: it moves behind the line.
            let left = x(bar.value) + GAP;
            let is_crossed = |at: &i32| (left - GAP..left + CHARACTER * spelt.len() as i32).contains(at);
            let left = marked.map(x).filter(is_crossed).map_or(left, |at| at + GAP);
            area.draw(&Text::new(spelt, (left, top + 3), text_style(Ink::Muted))).map_err(failed)?;
        }
        if let Some(marked) = marked {
            let line = PathElement::new([(x(marked), 0), (x(marked), bottom)], filled(Ink::Muted, 1.0));
            area.draw(&line).map_err(failed)?;
        }
        Ok(())
    })
}
