//! Coming back after a connection or an attachment was lost.

use std::time::{Duration, Instant};

use wire::ServerError;

use crate::{Error, backoff::Backoff};

const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// The attempts of one producer or consumer to come back.
#[derive(Debug)]
pub(crate) struct Attempts {
    backoff: Backoff,
    give_up: Instant,
    is_first: bool,
    is_final: bool,
    error: Error,
}

impl Attempts {
    /// For so long; the cause is what the caller is told if no attempt was made.
    pub(crate) fn new(limit: Duration, cause: Error) -> Self {
        Self { backoff: Backoff::new(LONGEST_PAUSE), give_up: Instant::now() + limit, is_first: true, is_final: false, error: cause }
    }

    /// Waits until the next attempt is due; false when there shall be none.
    pub(crate) async fn pause(&mut self) -> bool {
        if self.is_final || (Instant::now() >= self.give_up && !self.is_first) {
            return false;
        }
        // A broker that closed a producer or a consumer by itself is ready for it to come back at once.
        let at_once = std::mem::take(&mut self.is_first) && matches!(self.error, Error::Closed { .. });
        if !at_once {
            tokio::time::sleep(self.backoff.pause()).await;
        }
        true
    }

    pub(crate) fn failed(&mut self, error: Error) {
        self.is_final = !can_help(&error);
        self.error = error;
    }

    pub(crate) fn into_error(self) -> Error {
        self.error
    }
}

/// Whether coming back can help after this error. The broker may still hold the old connection for alive, so "busy" passes, too.
pub(crate) fn can_help(error: &Error) -> bool {
    match error {
        Error::Server { code, .. } => !matches!(
            code,
            ServerError::TopicNotFound
                | ServerError::SubscriptionNotFound
                | ServerError::TopicTerminatedError
                | ServerError::AuthenticationError
                | ServerError::AuthorizationError
                | ServerError::ProducerFenced
                | ServerError::IncompatibleSchema
                | ServerError::NotAllowedError
                | ServerError::InvalidTopicName
                | ServerError::UnsupportedVersionError
        ),
        Error::Protocol { .. } | Error::InvalidUrl { .. } | Error::InvalidTopic { .. } => false,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(code: ServerError) -> Error {
        Error::Server { request: "it", code, message: "no".into() }
    }

    #[tokio::test]
    async fn a_final_error_ends_the_attempts_and_is_the_one_reported() {
        let mut attempts = Attempts::new(Duration::from_secs(60), Error::Closed { what: "it", reason: "the broker closed it" });
        assert!(attempts.pause().await);
        attempts.failed(refused(ServerError::ProducerBusy));
        assert!(attempts.pause().await);
        attempts.failed(refused(ServerError::ProducerFenced));
        assert!(!attempts.pause().await);
        assert_eq!(attempts.into_error().code(), Some(ServerError::ProducerFenced));
    }

    #[tokio::test]
    async fn there_is_at_least_one_attempt_and_none_after_the_limit() {
        let mut attempts = Attempts::new(Duration::ZERO, refused(ServerError::ServiceNotReady));
        assert!(attempts.pause().await);
        attempts.failed(refused(ServerError::ServiceNotReady));
        assert!(!attempts.pause().await);
    }
}
