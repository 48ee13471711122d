//! Ctrl-C and its kin: a run that is asked to end stops the broker that it started and removes what it made, and only then ends.

use std::{future::pending, thread};

use anyhow::Context;
use tokio::{
    runtime::Builder,
    signal::unix::{Signal, SignalKind, signal},
    sync::watch,
};

/// Tells whether this program was asked to end.
#[derive(Clone, Debug)]
pub struct Interrupt(watch::Receiver<Option<Interrupted>>);

/// The signal that asked for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("ended by {0}; a broker that was started for this is stopped, and its directory is removed unless it is to be kept")]
pub struct Interrupted(&'static str);

impl Interrupt {
    /// From now on the signals that ask this program to end are noted here. A second one ends it at once.
    ///
    /// # Errors
    /// The system has no more threads or descriptors.
    pub fn listen() -> anyhow::Result<Self> {
        let (tell, told) = watch::channel(None);
        let runtime = Builder::new_current_thread().enable_io().build().context("signals cannot be listened for")?;
        let inside = runtime.enter();
        let kinds = [("SIGINT", SignalKind::interrupt()), ("SIGTERM", SignalKind::terminate()), ("SIGHUP", SignalKind::hangup())];
        let mut signals = kinds.into_iter().map(|(name, kind)| Ok((name, signal(kind)?))).collect::<std::io::Result<Vec<_>>>()?;
        drop(inside);
        let listening = move || {
            let name = runtime.block_on(first(&mut signals));
            // Nobody may be left who wants to know.
            let _ = tell.send(Some(Interrupted(name)));
            runtime.block_on(first(&mut signals));
            std::process::exit(i32::from(Interrupted::CODE));
        };
        thread::Builder::new().name("signals".to_owned()).spawn(listening).context("signals cannot be listened for")?;
        Ok(Self(told))
    }

    /// One that never comes, for programs that deal with signals themselves.
    #[must_use]
    pub fn never() -> Self {
        Self(watch::channel(None).1)
    }

    /// Errs when this program was asked to end.
    ///
    /// # Errors
    /// [`Interrupted`].
    pub fn check(&self) -> Result<(), Interrupted> {
        self.0.borrow().map_or(Ok(()), Err)
    }

    /// Waits until this program is asked to end.
    pub async fn asked(&self) -> Interrupted {
        let mut told = self.0.clone();
        // The other end is gone when nothing listens: nobody will ever ask.
        let asked = told.wait_for(Option::is_some).await.ok().and_then(|asked| *asked);
        match asked {
            Some(asked) => asked,
            None => pending().await,
        }
    }
}

impl Interrupted {
    /// What shells expect of a program that was interrupted.
    pub const CODE: u8 = 130;
}

async fn first(signals: &mut [(&'static str, Signal)]) -> &'static str {
    std::future::poll_fn(|cx| {
        let came = signals.iter_mut().find_map(|(name, signal)| signal.poll_recv(cx).is_ready().then_some(*name));
        came.map_or(std::task::Poll::Pending, std::task::Poll::Ready)
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_was_asked_is_told_to_whoever_waits_and_whoever_checks() {
        let (tell, told) = watch::channel(None);
        let interrupt = Interrupt(told);
        assert_eq!(interrupt.check(), Ok(()));
        let waiting = tokio::spawn({
            let interrupt = interrupt.clone();
            async move { interrupt.asked().await }
        });
        tell.send(Some(Interrupted("SIGINT"))).unwrap();
        assert_eq!(waiting.await.unwrap(), Interrupted("SIGINT"));
        assert_eq!(interrupt.check(), Err(Interrupted("SIGINT")));
    }

    #[test]
    fn what_never_comes_stops_nothing() {
        assert_eq!(Interrupt::never().check(), Ok(()));
    }
}
