//! Searches by time that an administrator asks for.

use crate::errand::{Errand, SubscriptionIndex};
use crate::seek::TimeSearch;
use crate::subscription::Asked;
use crate::{Effect, ReadOutcome, Reply, Topic, Turn};

/// One search.
#[derive(Debug)]
pub(crate) struct Finding {
    /// None while it is being gone on with.
    search: Option<TimeSearch>,
    asked: Asked,
    aim: Aim,
}

/// What it is for.
#[derive(Debug)]
enum Aim {
    /// To tell the place.
    Tell,
    /// To have these subscriptions leave behind what comes before it.
    Expire(Vec<String>),
}

impl Topic {
    /// Looks for the first message published at or after a time, in milliseconds since the epoch; answers with `Place`, which is one past
    /// the end if there is none.
    pub fn find_published(&mut self, turn: &mut Turn<'_>, asked: Asked, time: u64) {
        self.begin_finding(turn, asked, time, Aim::Tell);
    }

    /// Has a subscription, or all, leave behind what was published before a time; answers with `Success`.
    pub fn expire_before_time(&mut self, turn: &mut Turn<'_>, asked: Asked, subscription: Option<&str>, time: u64) {
        let of = match subscription {
            Some(name) => vec![name.to_owned()],
            None => self.subscriptions.iter().filter(|(_, s)| s.expires()).map(|(_, s)| s.name.clone()).collect(),
        };
        self.begin_finding(turn, asked, time, Aim::Expire(of));
    }

    fn begin_finding(&mut self, turn: &mut Turn<'_>, asked: Asked, time: u64, aim: Aim) {
        if self.is_going_away(turn, asked) {
            return;
        }
        let search = Some(TimeSearch::new(time, &self.ledgers.chain));
        let index = self.findings.insert(Finding { search, asked, aim });
        self.go_on_finding(turn, index);
    }

    /// Goes on with a search until something has to be read.
    pub(crate) fn go_on_finding(&mut self, turn: &mut Turn<'_>, index: usize) {
        let Some(mut search) = self.findings.get_mut(index).and_then(|finding| finding.search.take()) else { return };
        let (_, mut lent) = self.lend();
        let Some(at) = search.poll(Errand::Finding(index), &mut lent, turn) else {
            if let Some(finding) = self.findings.get_mut(index) {
                finding.search = Some(search);
            }
            return;
        };
        let Some(Finding { asked, aim, .. }) = self.findings.try_remove(index) else { return };
        match aim {
            Aim::Tell => turn.out.push(Effect::Reply { to: asked.to, reply: Reply::Place { request: asked.request, at } }),
            Aim::Expire(subscriptions) => {
                let upto = self.ledgers.chain.previous(at);
                for name in subscriptions {
                    let open = self.by_name.get(&name).copied().filter(|index| self.is_open(*index));
                    if let Some(index) = open {
                        self.expire_one(turn, index, upto);
                    }
                }
                self.trim(turn);
                self.success(turn, asked);
            }
        }
    }

    fn is_open(&self, index: SubscriptionIndex) -> bool {
        self.subscriptions.get(index).is_some_and(crate::subscription::Subscription::is_open)
    }

    /// Goes on with searches whose wait after a failed read is over.
    pub(crate) fn tick_findings(&mut self, turn: &mut Turn<'_>) {
        let due = self.findings.iter_mut().filter_map(|(index, finding)| finding.search.as_mut()?.may_retry(turn.now).then_some(index));
        for index in due.collect::<Vec<_>>() {
            self.go_on_finding(turn, index);
        }
    }

    /// A search's probe was read.
    pub(crate) fn finding_arrived(&mut self, turn: &mut Turn<'_>, index: usize, outcome: ReadOutcome) {
        let entry = outcome.entries.ok().and_then(|entries| entries.into_iter().next());
        let search = self.findings.get_mut(index).and_then(|finding| finding.search.as_mut());
        if search.is_some_and(|search| search.arrived(outcome.tag, entry, turn)) {
            self.go_on_finding(turn, index);
        }
    }

    /// When a failed read of a search is tried again.
    pub(crate) fn findings_deadline(&self) -> Option<u64> {
        self.findings.iter().filter_map(|(_, finding)| finding.search.as_ref()?.retry_at()).min()
    }

    /// Whoever asked for something that is not done yet.
    pub(crate) fn take_unanswered(&mut self) -> Vec<Asked> {
        let mut asked: Vec<Asked> = self.findings.drain().map(|finding| finding.asked).collect();
        asked.extend(self.end.take_asked());
        asked.extend(self.noted.drain(..).map(|(_, asked)| asked));
        asked
    }
}
