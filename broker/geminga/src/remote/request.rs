//! From a command line to a request.

use clap::ArgMatches;
use client::Method;
use serde_json::{Map, Value};

use super::value::{encoded, path, read};
use super::verb::{Arg, Kind, To, Verb};

/// What is asked of a broker.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Request {
    pub(crate) method: Method,
    /// With its query, encoded.
    pub(crate) path: String,
    pub(crate) body: Option<Value>,
}

impl Request {
    /// What `verb` asks with these arguments.
    pub(crate) fn new(verb: &Verb, matches: &ArgMatches) -> Result<Self, String> {
        let mut request = Request { method: verb.method.clone(), path: template(verb, matches).to_owned(), body: None };
        let mut fields = Map::new();
        let mut query = Vec::new();
        for arg in &verb.takes {
            let Some(text) = given(arg, matches) else { continue };
            let wrong = |reason: String| format!("{}: {reason}", arg.shown());
            match arg.to {
                To::Path => request.fill(arg.name, &path(arg.kind, &text).map_err(wrong)?),
                To::Query(name) => query.push(format!("{name}={}", path(arg.kind, &text).map_err(wrong)?)),
                To::Field(name) => drop(fields.insert(name.to_owned(), read(arg.kind, &text).map_err(wrong)?)),
                To::Body => request.body = Some(read(arg.kind, &text).map_err(wrong)?),
            }
        }
        if !fields.is_empty() {
            request.body = Some(Value::Object(fields));
        }
        if let (None, Some(body)) = (&request.body, verb.body) {
            request.body = Some(serde_json::from_str(body).map_err(|error| error.to_string())?);
        }
        if !query.is_empty() {
            let sign = if request.path.contains('?') { '&' } else { '?' };
            request.path = format!("{}{sign}{}", request.path, query.join("&"));
        }
        Ok(request)
    }

    fn fill(&mut self, name: &str, with: &str) {
        self.path = self.path.replace(&format!("{{{name}}}"), with);
    }

    /// The same request for another place in the path's `{number}`.
    pub(crate) fn numbered(&self, number: u64) -> Self {
        let mut request = self.clone();
        request.fill("number", &encoded(&number.to_string()));
        request
    }
}

fn template<'v>(verb: &'v Verb, matches: &ArgMatches) -> &'v str {
    match verb.other_path {
        Some((name, path)) if verb.takes.iter().any(|arg| arg.name == name && given(arg, matches).is_some()) => path,
        _ => &verb.path,
    }
}

/// What was given for an argument, or stands for it.
fn given(arg: &Arg, matches: &ArgMatches) -> Option<String> {
    let default = arg.default.map(str::to_owned);
    match arg.kind {
        Kind::Yes => matches.get_flag(arg.name).then(|| "true".to_owned()),
        Kind::OnOff => match (matches.get_flag("enable"), matches.get_flag("disable")) {
            (false, false) => default,
            (enable, _) => Some(enable.to_string()),
        },
        _ => matches.get_one::<String>(arg.name).cloned().or(default),
    }
}
