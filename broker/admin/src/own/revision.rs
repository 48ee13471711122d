//! Revisions of single resources: what a reader has already is not sent again, and a writer says which revision it means to replace.

use hyper::StatusCode;
use hyper::header::{HeaderName, IF_MATCH, IF_NONE_MATCH};
use serde::Serialize;

use crate::errors::Refusal;
use crate::reply::Reply;
use crate::request::Call;

impl Call {
    /// GET of a resource at a revision: 304 for whoever has that one.
    ///
    /// # Errors
    /// What cannot be spelt.
    pub(crate) fn shown_at(&self, revision: &str, value: &impl Serialize) -> Result<Reply, Refusal> {
        if names(self.header(&IF_NONE_MATCH), revision) {
            return Ok(Reply::not_modified().tagged(revision));
        }
        Ok(Reply::json(value)?.tagged(revision))
    }

    /// Lets a change through if it names the revision that it would replace. `None`: there is nothing yet.
    ///
    /// # Errors
    /// 428 when it names none, 412 when it names another.
    pub(crate) fn means(&self, what: &str, revision: Option<&str>) -> Result<(), Refusal> {
        let (replaces, creates) = (self.header(&IF_MATCH), self.header(&IF_NONE_MATCH));
        match (replaces, creates, revision) {
            (None, Some("*"), None) => Ok(()),
            (None, Some("*"), Some(revision)) => Err(stale(format!("{what} is there already, at revision {revision}"))),
            (Some(_), _, Some(revision)) if names(replaces, revision) => Ok(()),
            (Some(named), _, Some(revision)) => Err(stale(format!("{what} is at revision {revision}, the request names {named}"))),
            (Some(named), _, None) => Err(stale(format!("{what} is not there, the request names revision {named}"))),
            (None, _, _) => {
                let advice = "read it first, and send If-Match with the ETag you got (or If-None-Match: * to create it)";
                Err(Refusal::new(StatusCode::PRECONDITION_REQUIRED, format!("A change of {what} must say what it replaces: {advice}")))
            }
        }
    }

    fn header(&self, name: &HeaderName) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }
}

fn stale(reason: String) -> Refusal {
    Refusal::precondition(reason).coded("stale-revision")
}

/// Whether a list of tags, or `*`, names this revision. Ours are strong, so a weak one names none.
fn names(tags: Option<&str>, revision: &str) -> bool {
    let is_it = |tag: &str| tag.trim() == "*" || tag.trim().strip_prefix('"').and_then(|tag| tag.strip_suffix('"')) == Some(revision);
    tags.is_some_and(|tags| tags.split(',').any(is_it))
}

#[cfg(test)]
mod tests {
    use super::names;

    #[test]
    fn a_tag_is_quoted_and_may_stand_among_others() {
        assert!(names(Some("\"41\""), "41") && names(Some("\"40\", \"41\""), "41") && names(Some("*"), "41"));
        assert!(!names(Some("41"), "41") && !names(Some("W/\"41\""), "41") && !names(Some("\"4\""), "41") && !names(None, "41"));
    }
}
