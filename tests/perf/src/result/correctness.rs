//! Whether a run was correct.

use serde::{Deserialize, Serialize};

/// What was sent, what came, and the judgement on it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Correctness {
    /// Messages with a receipt, warm-up included.
    pub published: u64,
    /// Sends that failed or were never answered.
    pub failed: u64,
    /// What each application saw.
    pub applications: Vec<ApplicationCheck>,
    /// What else makes the run worthless, such as a scenario that ended before its time.
    #[serde(default)]
    pub other_reasons: Vec<String>,
}

/// What one application saw.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ApplicationCheck {
    /// Its name.
    pub name: String,
    /// Distinct messages that came.
    pub received: u64,
    /// Messages that came again; counted and accepted.
    pub duplicates: u64,
    /// First deliveries above the number that the device should have had next.
    pub ordering_violations: u64,
    /// Messages that were not what had been sent.
    pub invalid: u64,
    /// Messages with a receipt that never came.
    pub missing: u64,
}

/// The judgement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Every application received every message, in order.
    Valid,
    /// Something else happened, told line by line; the figures are not to be used.
    Invalid(Vec<String>),
}

impl Verdict {
    /// Whether the figures may be used.
    pub fn is_valid(&self) -> bool {
        *self == Self::Valid
    }
}

impl Correctness {
    /// Judges: anything missing, out of order or invalid in any application, or a failed send, makes the run invalid.
    pub fn verdict(&self) -> Verdict {
        let mut reasons = self.other_reasons.clone();
        if self.published == 0 {
            reasons.push("nothing was published".to_owned());
        }
        if self.applications.is_empty() {
            reasons.push("no application received anything".to_owned());
        }
        if self.failed > 0 {
            reasons.push(format!("{} sends failed", self.failed));
        }
        for application in &self.applications {
            application.complain(&mut reasons);
        }
        if reasons.is_empty() { Verdict::Valid } else { Verdict::Invalid(reasons) }
    }

    /// Messages that came again, over all applications.
    pub fn duplicates(&self) -> u64 {
        self.applications.iter().map(|application| application.duplicates).sum()
    }
}

impl ApplicationCheck {
    fn complain(&self, reasons: &mut Vec<String>) {
        let counts = [
            (self.missing, "messages never came"),
            (self.ordering_violations, "messages came out of order"),
            (self.invalid, "messages were not what had been sent"),
        ];
        let bad = counts.into_iter().filter(|(count, _)| *count > 0);
        reasons.extend(bad.map(|(count, what)| format!("{}: {count} {what}", self.name)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn correct() -> Correctness {
        let application = ApplicationCheck { name: "billing".to_owned(), received: 10, duplicates: 2, ..Default::default() };
        Correctness { published: 10, applications: vec![application], ..Default::default() }
    }

    #[test]
    fn duplicates_are_accepted() {
        assert_eq!(correct().verdict(), Verdict::Valid);
        assert_eq!(correct().duplicates(), 2);
    }

    #[test]
    fn one_missing_message_makes_a_run_invalid() {
        let mut run = correct();
        run.applications[0].missing = 1;
        assert_eq!(run.verdict(), Verdict::Invalid(vec!["billing: 1 messages never came".to_owned()]));
    }

    #[test]
    fn a_run_that_published_nothing_is_not_valid() {
        assert!(!Correctness::default().verdict().is_valid());
    }
}
