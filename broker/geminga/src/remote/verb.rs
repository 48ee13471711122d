//! What a command on a running broker is: words, what they take, and the request that they make.

use client::Method;

/// Commands on one kind of thing: `geminga admin topics …`.
#[derive(Debug)]
pub(crate) struct Noun {
    pub(crate) name: &'static str,
    /// Other names that work, for the habits of Pulsar's tools.
    pub(crate) also: &'static [&'static str],
    pub(crate) about: &'static str,
    pub(crate) verbs: Vec<Verb>,
}

/// One command: `geminga admin topics stats TOPIC`.
#[derive(Debug)]
pub(crate) struct Verb {
    pub(crate) name: String,
    pub(crate) also: &'static [&'static str],
    pub(crate) about: String,
    pub(crate) method: Method,
    /// With `{name}` where an argument goes.
    pub(crate) path: String,
    pub(crate) takes: Vec<Arg>,
    /// The path to use when the argument of that name is given.
    pub(crate) other_path: Option<(&'static str, &'static str)>,
    /// What the body is when no argument adds to it.
    pub(crate) body: Option<&'static str>,
    pub(crate) example: String,
    pub(crate) show: Show,
}

/// How an answer is printed for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Show {
    /// By its shape.
    Plain,
    /// The numbers of a topic, with a table of its subscriptions.
    TopicStats,
    /// A message: its headers, then what it holds.
    Message,
}

/// Something that a command takes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arg {
    /// Long flag, or the name of the place.
    pub(crate) name: &'static str,
    pub(crate) short: Option<char>,
    pub(crate) also: &'static [&'static str],
    pub(crate) help: &'static str,
    pub(crate) kind: Kind,
    pub(crate) to: To,
    pub(crate) needed: bool,
    pub(crate) default: Option<&'static str>,
    pub(crate) is_flag: bool,
}

/// How a value is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Text,
    Integer,
    Real,
    /// `10M`, `2G` or a number of bytes.
    Bytes,
    /// The same, sent in units of 1 MiB.
    Megabytes,
    /// `30s`, `10m`, `2h`, `7d`, or a number of the unit that is sent.
    Seconds,
    Minutes,
    Millis,
    /// How long ago; sent as milliseconds since 1970.
    Ago,
    /// There or not.
    Yes,
    /// `--enable` or `--disable`.
    OnOff,
    OneOf(&'static [&'static str]),
    /// Separated by commas.
    List,
    /// `ledger:entry`, or `earliest` or `latest`.
    MessageId,
    /// `name=value`, separated by commas.
    Pairs,
    /// A file that holds JSON.
    JsonFile,
    Namespace,
    /// Goes into a path as `persistent/tenant/namespace/name`.
    Topic,
    /// The same without the domain.
    TopicOfAnyDomain,
}

/// Where a value goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum To {
    /// Into the path, at the place of that name.
    Path,
    Query(&'static str),
    /// Into an object in the body.
    Field(&'static str),
    /// It is the body.
    Body,
}

impl Noun {
    pub(crate) fn new(name: &'static str, about: &'static str, verbs: Vec<Verb>) -> Self {
        Self { name, also: &[], about, verbs }
    }

    pub(crate) fn also(mut self, also: &'static [&'static str]) -> Self {
        self.also = also;
        self
    }
}

impl Verb {
    fn new(method: Method, name: impl Into<String>, path: impl Into<String>, about: impl Into<String>) -> Self {
        let (name, path, about) = (name.into(), path.into(), about.into());
        let plain = Show::Plain;
        Self { name, also: &[], about, method, path, takes: Vec::new(), other_path: None, body: None, example: String::new(), show: plain }
    }

    pub(crate) fn get(name: impl Into<String>, path: impl Into<String>, about: impl Into<String>) -> Self {
        Self::new(Method::GET, name, path, about)
    }

    pub(crate) fn put(name: impl Into<String>, path: impl Into<String>, about: impl Into<String>) -> Self {
        Self::new(Method::PUT, name, path, about)
    }

    pub(crate) fn post(name: impl Into<String>, path: impl Into<String>, about: impl Into<String>) -> Self {
        Self::new(Method::POST, name, path, about)
    }

    pub(crate) fn delete(name: impl Into<String>, path: impl Into<String>, about: impl Into<String>) -> Self {
        Self::new(Method::DELETE, name, path, about)
    }

    pub(crate) fn with(mut self, arg: Arg) -> Self {
        self.takes.push(arg);
        self
    }

    pub(crate) fn also(mut self, also: &'static [&'static str]) -> Self {
        self.also = also;
        self
    }

    pub(crate) fn or_if(mut self, arg: &'static str, path: &'static str) -> Self {
        self.other_path = Some((arg, path));
        self
    }

    pub(crate) fn body(mut self, body: &'static str) -> Self {
        self.body = Some(body);
        self
    }

    pub(crate) fn example(mut self, example: impl Into<String>) -> Self {
        self.example = example.into();
        self
    }

    pub(crate) fn show(mut self, show: Show) -> Self {
        self.show = show;
        self
    }
}

impl Arg {
    /// A place in the command line, which goes into the path.
    pub(crate) const fn place(name: &'static str, kind: Kind, help: &'static str) -> Self {
        let to = To::Path;
        Self { name, short: None, also: &[], help, kind, to, needed: true, default: None, is_flag: false }
    }

    /// A flag, which goes into the path at the place of its name unless told otherwise.
    pub(crate) const fn flag(name: &'static str, kind: Kind, help: &'static str) -> Self {
        let to = To::Path;
        Self { name, short: None, also: &[], help, kind, to, needed: false, default: None, is_flag: true }
    }

    pub(crate) const fn short(mut self, short: char) -> Self {
        self.short = Some(short);
        self
    }

    pub(crate) const fn also(mut self, also: &'static [&'static str]) -> Self {
        self.also = also;
        self
    }

    pub(crate) const fn to(mut self, to: To) -> Self {
        self.to = to;
        self
    }

    pub(crate) const fn field(self, name: &'static str) -> Self {
        self.to(To::Field(name))
    }

    pub(crate) const fn query(self, name: &'static str) -> Self {
        self.to(To::Query(name))
    }

    pub(crate) const fn needed(mut self) -> Self {
        self.needed = true;
        self
    }

    pub(crate) const fn or(mut self, default: &'static str) -> Self {
        self.default = Some(default);
        self
    }
}
