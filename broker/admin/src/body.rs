//! The body of an answer: whole, in slices when it is large, or a stream that goes on while somebody reads it.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body as HttpBody, Frame, SizeHint};

/// The most that is handed over at once; between two slices the loop does other work.
const SLICE: usize = 64 * 1024;

/// Frames that come when they come; none is the end.
pub(crate) trait Feed: 'static {
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>>;
}

/// See the module.
pub(crate) enum Body {
    /// What is left of it, and whether the loop may do something else first.
    Whole {
        rest: Bytes,
        rested: bool,
    },
    Stream(Box<dyn Feed>),
}

impl Body {
    pub(crate) fn whole(bytes: impl Into<Bytes>) -> Self {
        Self::Whole { rest: bytes.into(), rested: true }
    }

    /// The bytes, unless it is a stream.
    pub(crate) fn bytes(&self) -> Option<&Bytes> {
        match self {
            Self::Whole { rest, .. } => Some(rest),
            Self::Stream(_) => None,
        }
    }
}

impl std::fmt::Debug for Body {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Whole { rest, .. } => rest.fmt(f),
            Self::Stream(_) => f.write_str("stream"),
        }
    }
}

impl HttpBody for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.get_mut() {
            Self::Whole { rest, .. } if rest.is_empty() => Poll::Ready(None),
            Self::Whole { rest, rested } => {
                if !std::mem::replace(rested, true) {
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
                *rested = false;
                Poll::Ready(Some(Ok(Frame::data(rest.split_to(rest.len().min(SLICE))))))
            }
            Self::Stream(feed) => feed.poll_next(cx).map(|next| next.map(|bytes| Ok(Frame::data(bytes)))),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Whole { rest, .. } if rest.is_empty())
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole { rest, .. } => SizeHint::with_exact(rest.len() as u64),
            Self::Stream(_) => SizeHint::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_body_goes_out_in_slices_with_rests_between_and_its_length_is_told() {
        let mut body = Body::whole(vec![7; 2 * SLICE + 5]);
        assert_eq!(body.size_hint().exact(), Some(2 * SLICE as u64 + 5));
        let mut cx = Context::from_waker(std::task::Waker::noop());
        let (mut sizes, mut rests) = (Vec::new(), 0);
        loop {
            match Pin::new(&mut body).poll_frame(&mut cx) {
                Poll::Ready(Some(frame)) => sizes.push(frame.unwrap().into_data().unwrap().len()),
                Poll::Ready(None) => break,
                Poll::Pending => rests += 1,
            }
        }
        assert_eq!((sizes, rests), (vec![SLICE, SLICE, 5], 2));
    }

    #[test]
    fn an_empty_body_has_ended_before_it_began() {
        assert!(Body::whole(Bytes::new()).is_end_stream());
    }
}
