//! One picture for all figures: the range of each set, in per cent of the first set's median.

use plotters::prelude::*;

use super::metrics::Row;
use crate::report::{
    chart::{Ink, drawn, failed, filled, text_style},
    figures,
    scales::Scale,
};

const ROW: i32 = 26;
const LABELS: i32 = 300;
const RIGHT: i32 = 80;
const AXIS: i32 = 34;
const WIDTH: u32 = 1080;

/// The ranges; none when no figure is in both sets.
pub(super) fn ranges(rows: &[Row]) -> anyhow::Result<Option<String>> {
    let shown: Vec<(&Row, [f64; 6])> = rows.iter().filter_map(|row| Some((row, relative(row)?))).collect();
    let all = || shown.iter().flat_map(|(_, values)| values.iter().copied());
    let (least, most) = (all().fold(f64::MAX, f64::min), all().fold(f64::MIN, f64::max));
    if shown.is_empty() {
        return Ok(None);
    }
    // Per cent of widely different sizes can only be shown by their ratio.
    let scale = Scale::logarithmic(least.clamp(0.1, 90.0), most.max(110.0));
    let room = f64::from(WIDTH as i32 - LABELS - RIGHT);
    let x = |percent: f64| {
        let share = (percent.max(scale.from) / scale.from).ln() / (scale.to / scale.from).ln();
        LABELS + (room * share).round() as i32
    };
    let height = ROW * shown.len() as i32 + AXIS;
    let svg = drawn((WIDTH, height as u32), |area| {
        let bottom = height - AXIS;
        for tick in &scale.ticks {
            let ink = if (*tick - 100.0).abs() < 1e-6 { Ink::Muted } else { Ink::Grid };
            area.draw(&PathElement::new([(x(*tick), 0), (x(*tick), bottom)], filled(ink, 1.0))).map_err(failed)?;
            let spelt = format!("{} %", figures::tick(*tick));
            let left = x(*tick) - 3 * spelt.len() as i32;
            area.draw(&Text::new(spelt, (left, bottom + 8), text_style(Ink::Muted))).map_err(failed)?;
        }
        for (at, (row, [a_min, a, a_max, b_min, b, b_max])) in shown.iter().enumerate() {
            let top = at as i32 * ROW;
            area.draw(&Text::new(row.name, (4, top + 7), text_style(Ink::Text))).map_err(failed)?;
            for (offset, ink, [min, median, max]) in [(5, Ink::Series(0), [*a_min, *a, *a_max]), (14, Ink::Series(1), [*b_min, *b, *b_max])]
            {
                let (from, to) = (x(min) - 1, x(max) + 1);
                area.draw(&Rectangle::new([(from, top + offset + 1), (to, top + offset + 6)], filled(ink, 0.45))).map_err(failed)?;
                let dot = [(x(median) - 2, top + offset - 1), (x(median) + 2, top + offset + 8)];
                area.draw(&Rectangle::new(dot, filled(ink, 1.0))).map_err(failed)?;
            }
        }
        Ok(())
    })?;
    Ok(Some(svg))
}

/// Least, median and greatest of both sets, in per cent of the first set's median; none where one is zero, which no logarithm shows.
fn relative(row: &Row) -> Option<[f64; 6]> {
    let (a, b) = row.a.zip(row.b).filter(|(a, b)| a.min > 0.0 && b.min > 0.0)?;
    Some([a.min, a.median, a.max, b.min, b.median, b.max].map(|value| value / a.median * 100.0))
}
