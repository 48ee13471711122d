//! What a connection still has to send: small frames copied together, large payloads as shared slices.

use std::collections::VecDeque;
use std::io::{self, IoSlice};

use bytes::{Buf, Bytes, BytesMut};

/// Payloads up to this size are copied behind their header: a copy costs less than one more slice in a vectored write.
const COPY_LIMIT: usize = 4096;
/// Slices in one write at most; the kernel takes 1024.
const MAX_SLICES: usize = 256;
/// An empty buffer larger than this is given back.
const KEEP_CAPACITY: usize = 256 * 1024;

/// The buffer. Everything in `sealed` goes out before `tail`.
#[derive(Debug, Default)]
pub(crate) struct OutBuffer {
    sealed: VecDeque<Bytes>,
    sealed_len: usize,
    tail: BytesMut,
}

impl OutBuffer {
    pub(crate) fn len(&self) -> usize {
        self.sealed_len + self.tail.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Where frames and headers are encoded.
    pub(crate) fn tail(&mut self) -> &mut BytesMut {
        &mut self.tail
    }

    /// Adds a payload behind the header that was just encoded.
    pub(crate) fn payload(&mut self, bytes: Bytes) {
        if bytes.len() <= COPY_LIMIT {
            self.tail.extend_from_slice(&bytes);
            return;
        }
        if !self.tail.is_empty() {
            let header = self.tail.split().freeze();
            self.sealed_len += header.len();
            self.sealed.push_back(header);
        }
        self.sealed_len += bytes.len();
        self.sealed.push_back(bytes);
    }

    /// Writes until everything is out or `write` would block (then the rest stays).
    pub(crate) fn write_with(&mut self, mut write: impl FnMut(&[IoSlice<'_>]) -> io::Result<usize>) -> io::Result<()> {
        while !self.is_empty() {
            let written = if self.sealed.is_empty() {
                write(&[IoSlice::new(&self.tail)])?
            } else {
                let mut slices = Vec::with_capacity((self.sealed.len() + 1).min(MAX_SLICES));
                slices.extend(self.sealed.iter().take(MAX_SLICES).map(|b| IoSlice::new(b)));
                if self.sealed.len() < MAX_SLICES && !self.tail.is_empty() {
                    slices.push(IoSlice::new(&self.tail));
                }
                write(&slices)?
            };
            if written == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            self.advance(written);
        }
        Ok(())
    }

    fn advance(&mut self, mut written: usize) {
        while let Some(front) = self.sealed.front_mut() {
            if written < front.len() {
                front.advance(written);
                self.sealed_len -= written;
                return;
            }
            written -= front.len();
            self.sealed_len -= front.len();
            self.sealed.pop_front();
        }
        if written == self.tail.len() {
            self.reset_tail();
        } else {
            self.tail.advance(written);
        }
    }

    fn reset_tail(&mut self) {
        if self.tail.capacity() > KEEP_CAPACITY {
            self.tail = BytesMut::new();
        } else {
            self.tail.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_in_comes_out_in_order_whatever_the_writes_take() {
        for chunk in [1, 7, 4096, 100_000] {
            let mut out = OutBuffer::default();
            let mut expected = Vec::new();
            for i in 0..20_u8 {
                out.tail().extend_from_slice(&[i; 10]);
                expected.extend_from_slice(&[i; 10]);
                let payload = Bytes::from(vec![i; if i % 3 == 0 { 9000 } else { 50 }]);
                expected.extend_from_slice(&payload);
                out.payload(payload);
            }
            assert_eq!(out.len(), expected.len());
            let mut got = Vec::new();
            let mut calls = 0;
            while !out.is_empty() {
                let outcome = out.write_with(|slices| {
                    calls += 1;
                    if calls % 3 == 0 {
                        return Err(io::ErrorKind::WouldBlock.into());
                    }
                    let mut taken = 0;
                    for slice in slices {
                        let n = slice.len().min(chunk - taken);
                        got.extend_from_slice(&slice[..n]);
                        taken += n;
                    }
                    Ok(taken)
                });
                assert!(outcome.is_ok() || outcome.is_err_and(|e| e.kind() == io::ErrorKind::WouldBlock));
            }
            assert_eq!(got, expected);
        }
    }
}
