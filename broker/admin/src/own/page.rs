//! Lists in pages: filtered, sorted by one column, and continued from where the last page ended. What is listed is a snapshot; only
//! the page is spelt.

use std::cmp::Ordering;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::errors::Refusal;
use crate::request::Query;

const USUAL: usize = 100;
const MOST: usize = 1_000;

/// What stands in a column, for sorting and filtering.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub(crate) enum Cell<'a> {
    Flag(bool),
    Number(f64),
    Text(&'a str),
}

/// A row of a list.
pub(crate) trait Row: Serialize + Sized {
    /// The columns that can be sorted and filtered by.
    const COLUMNS: &'static [&'static str];
    /// What no other row has.
    fn id(&self) -> &str;
    /// How to get at a column.
    fn column(name: &str) -> Option<Column<Self>>;
}

/// Gets a row's cell.
pub(crate) type Column<R> = for<'a> fn(&'a R) -> Cell<'a>;

/// Names a row's columns: `columns!(TopicRow, name, { "name" => |row| Cell::Text(&row.name), … })`.
macro_rules! columns {
    ($row:ty, $id:ident, { $($name:literal => $cell:expr),+ $(,)? }) => {
        impl $crate::own::page::Row for $row {
            const COLUMNS: &'static [&'static str] = &[$($name),+];

            fn id(&self) -> &str {
                &self.$id
            }

            fn column(name: &str) -> Option<$crate::own::page::Column<Self>> {
                match name {
                    $($name => Some($cell),)+
                    _ => None,
                }
            }
        }
    };
}
pub(crate) use columns;

/// What a caller wants of a list.
pub(crate) struct Listing<R> {
    limit: usize,
    sort: String,
    by: Option<Column<R>>,
    descending: bool,
    after: Option<Place>,
    contains: Option<String>,
    filters: Vec<(Column<R>, String)>,
    fields: Option<Vec<String>>,
}

/// Where a page ended.
#[derive(Debug, Serialize, Deserialize)]
struct Place {
    /// As the caller spelt it: a cursor belongs to its order.
    s: String,
    /// The last row's cell.
    c: Value,
    /// The last row's id.
    i: String,
}

/// A page as it is answered.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Page {
    items: Vec<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
    /// Rows that fit, on all pages; the next page may be of another snapshot.
    approx_total: usize,
}

impl<R: Row> Listing<R> {
    /// Reads `limit`, `cursor`, `sort`, `q`, `filter` and `fields`.
    ///
    /// # Errors
    /// 400 that names the parameter and what it may be.
    pub(crate) fn read(query: &Query) -> Result<Self, Refusal> {
        let limit = match query.get("limit") {
            None => USUAL,
            Some(text) => text
                .parse()
                .ok()
                .filter(|limit| (1..=MOST).contains(limit))
                .ok_or_else(|| Refusal::bad_request(format!("limit is a number from 1 to {MOST}, not {text:?}")))?,
        };
        let sort = query.get("sort").unwrap_or_default().to_owned();
        let by = match sort.trim_start_matches('-') {
            "" => None,
            name => Some(column::<R>("sort", name)?),
        };
        let after = query.get("cursor").filter(|text| !text.is_empty()).map(|text| place(text, &sort)).transpose()?;
        let contains = query.get("q").filter(|text| !text.is_empty()).map(str::to_ascii_lowercase);
        let filters = query.get("filter").into_iter().flat_map(|text| text.split(',')).filter(|pair| !pair.is_empty());
        let filters = filters.map(filter::<R>).collect::<Result<_, _>>()?;
        let fields = query.get("fields").map(|text| text.split(',').map(str::to_owned).collect());
        Ok(Self { limit, descending: sort.starts_with('-'), sort, by, after, contains, filters, fields })
    }

    /// The page of these rows.
    ///
    /// # Errors
    /// A row that cannot be spelt.
    pub(crate) fn of<'r>(&self, rows: impl IntoIterator<Item = &'r R>) -> Result<Page, Refusal>
    where
        R: 'r,
    {
        let mut fitting: Vec<&R> = rows.into_iter().filter(|row| self.fits(row)).collect();
        let approx_total = fitting.len();
        if let Some(place) = &self.after {
            fitting.retain(|row| self.is_behind(row, place));
        }
        let more = fitting.len() > self.limit;
        if more {
            fitting.select_nth_unstable_by(self.limit, |a, b| self.compare(a, b));
            fitting.truncate(self.limit);
        }
        fitting.sort_unstable_by(|a, b| self.compare(a, b));
        let next_cursor = fitting.last().filter(|_| more).map(|row| self.cursor(row));
        let items = fitting.into_iter().map(|row| self.spell(row)).collect::<Result<_, _>>()?;
        Ok(Page { items, next_cursor, approx_total })
    }

    fn fits(&self, row: &R) -> bool {
        let contained = |text: &String| row.id().to_ascii_lowercase().contains(text.as_str());
        self.contains.as_ref().is_none_or(contained) && self.filters.iter().all(|(column, wanted)| is_spelt(column(row), wanted))
    }

    fn compare(&self, a: &R, b: &R) -> Ordering {
        let cells = self.by.map_or(Ordering::Equal, |by| order(by(a), by(b)));
        let all = cells.then_with(|| a.id().cmp(b.id()));
        if self.descending { all.reverse() } else { all }
    }

    fn is_behind(&self, row: &R, place: &Place) -> bool {
        let cells = match self.by {
            Some(by) => order(by(row), cell(&place.c)),
            None => Ordering::Equal,
        };
        let all = cells.then_with(|| row.id().cmp(&place.i));
        all == if self.descending { Ordering::Less } else { Ordering::Greater }
    }

    fn cursor(&self, row: &R) -> String {
        let cell = self.by.map_or(Value::Null, |by| match by(row) {
            Cell::Flag(flag) => flag.into(),
            Cell::Number(number) => number.into(),
            Cell::Text(text) => text.into(),
        });
        let place = Place { s: self.sort.clone(), c: cell, i: row.id().to_owned() };
        BASE64_URL_SAFE_NO_PAD.encode(serde_json::to_vec(&place).unwrap_or_default())
    }

    fn spell(&self, row: &R) -> Result<Value, Refusal> {
        let spelt = serde_json::to_value(row).map_err(|error| Refusal::internal(format!("the answer cannot be spelt: {error}")))?;
        match (&self.fields, spelt) {
            (Some(fields), Value::Object(mut all)) => {
                let chosen = fields.iter().filter_map(|field| all.remove_entry(field));
                Ok(Value::Object(chosen.collect::<Map<_, _>>()))
            }
            (_, spelt) => Ok(spelt),
        }
    }
}

fn column<R: Row>(parameter: &str, name: &str) -> Result<Column<R>, Refusal> {
    R::column(name).ok_or_else(|| Refusal::bad_request(format!("{parameter}: there is no column {name:?}, only {}", R::COLUMNS.join(", "))))
}

fn filter<R: Row>(pair: &str) -> Result<(Column<R>, String), Refusal> {
    let (name, wanted) =
        pair.split_once(':').ok_or_else(|| Refusal::bad_request(format!("filter: {pair:?} is not written column:value")))?;
    Ok((column::<R>("filter", name)?, wanted.to_owned()))
}

fn place(text: &str, sort: &str) -> Result<Place, Refusal> {
    let strange = || Refusal::bad_request("cursor: this is not the nextCursor of a page of this list, sorted like this");
    let bytes = BASE64_URL_SAFE_NO_PAD.decode(text).map_err(|_| strange())?;
    serde_json::from_slice(&bytes).ok().filter(|place: &Place| place.s == sort).ok_or_else(strange)
}

fn cell(value: &Value) -> Cell<'_> {
    match value {
        Value::Bool(flag) => Cell::Flag(*flag),
        Value::Number(number) => Cell::Number(number.as_f64().unwrap_or(0.0)),
        other => Cell::Text(other.as_str().unwrap_or_default()),
    }
}

fn order(a: Cell<'_>, b: Cell<'_>) -> Ordering {
    match (a, b) {
        (Cell::Number(a), Cell::Number(b)) => a.total_cmp(&b),
        (a, b) => a.partial_cmp(&b).unwrap_or(Ordering::Equal),
    }
}

fn is_spelt(cell: Cell<'_>, wanted: &str) -> bool {
    match cell {
        Cell::Flag(flag) => wanted == if flag { "true" } else { "false" },
        Cell::Number(number) => wanted.parse() == Ok(number),
        Cell::Text(text) => text == wanted,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(Debug, Serialize)]
    struct Animal {
        name: String,
        legs: u32,
        tame: bool,
    }

    columns!(Animal, name, {
        "name" => |row| Cell::Text(&row.name),
        "legs" => |row| Cell::Number(f64::from(row.legs)),
        "tame" => |row| Cell::Flag(row.tame),
    });

    fn zoo() -> Vec<Animal> {
        let animal = |name: &str, legs, tame| Animal { name: name.into(), legs, tame };
        vec![animal("dog", 4, true), animal("spider", 8, false), animal("bird", 2, true), animal("cat", 4, true), animal("eel", 0, false)]
    }

    fn page(query: &str) -> Page {
        Listing::<Animal>::read(&Query::parse(query)).unwrap().of(&zoo()).unwrap()
    }

    fn names(page: &Page) -> Vec<&str> {
        page.items.iter().map(|item| item["name"].as_str().unwrap()).collect()
    }

    fn refused(query: &str) -> String {
        Listing::<Animal>::read(&Query::parse(query)).err().expect("refused").reason
    }

    #[test]
    fn rows_are_sorted_by_a_column_and_by_name_where_that_is_the_same() {
        assert_eq!(names(&page("")), ["bird", "cat", "dog", "eel", "spider"]);
        assert_eq!(names(&page("sort=legs")), ["eel", "bird", "cat", "dog", "spider"]);
        assert_eq!(names(&page("sort=-legs")), ["spider", "dog", "cat", "bird", "eel"]);
        assert_eq!(names(&page("sort=-name&limit=2")), ["spider", "eel"]);
    }

    #[test]
    fn pages_follow_each_other_to_the_end() {
        for sort in ["", "legs", "-legs", "-name", "tame"] {
            let all = page(&format!("sort={sort}"));
            let (mut seen, mut cursor) = (Vec::new(), String::new());
            loop {
                let next = page(&format!("sort={sort}&limit=2&cursor={cursor}"));
                assert_eq!(next.approx_total, 5);
                seen.extend(names(&next).into_iter().map(str::to_owned));
                match next.next_cursor {
                    Some(next) => cursor = next,
                    None => break,
                }
            }
            assert_eq!(seen, names(&all), "{sort}");
        }
    }

    #[test]
    fn rows_are_chosen_by_name_and_by_value_and_cut_to_fields() {
        assert_eq!(names(&page("q=D")), ["bird", "dog", "spider"]);
        assert_eq!(names(&page("filter=legs:4,tame:true")), ["cat", "dog"]);
        assert_eq!(page("filter=legs:4&fields=legs").items, [serde_json::json!({"legs": 4}), serde_json::json!({"legs": 4})]);
        assert_eq!(page("q=whale").approx_total, 0);
    }

    #[test]
    fn what_cannot_be_is_refused_with_what_can() {
        assert!(refused("limit=0").contains("1 to 1000") && refused("limit=1001").contains("1001"));
        assert!(refused("sort=age").contains("name, legs, tame"));
        assert!(refused("filter=legs").contains("column:value") && refused("filter=age:1").contains("no column"));
        assert!(refused("cursor=%21").contains("cursor"));
        let of_another_order = page("sort=legs&limit=1").next_cursor.unwrap();
        assert!(refused(&format!("sort=name&cursor={of_another_order}")).contains("cursor"));
    }

    proptest! {
        #[test]
        fn no_cursor_upsets_a_list(cursor in "\\PC*") {
            let query = percent_encoding::utf8_percent_encode(&cursor, percent_encoding::NON_ALPHANUMERIC);
            let _ = Listing::<Animal>::read(&Query::parse(&format!("cursor={query}")));
        }
    }
}
