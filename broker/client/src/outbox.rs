//! What a connection has still to write. Everything added before the connection's task runs leaves in one write.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    task::Waker,
};

use bytes::BytesMut;
use wire::{Ack, AckIds, AckType, Command};

/// The outgoing half of a connection, shared by everything that uses the connection. Its lock is the innermost: no other is taken under it.
#[derive(Debug, Default)]
pub(crate) struct Outbox(Mutex<Out>);

#[derive(Debug, Default)]
pub(crate) struct Out {
    bytes: BytesMut,
    /// Acks of the consumer that acked last; they become one command when anything else follows or the connection writes.
    acks: Vec<wire::MessageId>,
    acking: u64,
    task: Option<Waker>,
    closing: bool,
}

/// What the connection's task finds.
#[derive(Debug)]
pub(crate) struct Outgoing {
    pub(crate) bytes: BytesMut,
    /// Nobody will add anything; the connection may end when these bytes are written.
    pub(crate) last: bool,
}

impl Outbox {
    /// Adds to the outbox and wakes the connection's task if it sleeps.
    pub(crate) fn write<T>(&self, add: impl FnOnce(&mut Out) -> T) -> T {
        let mut out = self.lock();
        let result = add(&mut out);
        let task = out.task.take();
        drop(out);
        if let Some(task) = task {
            task.wake();
        }
        result
    }

    pub(crate) fn close(&self) {
        self.write(|out| out.closing = true);
    }

    /// Takes what there is, leaving `spare` as the next buffer; remembers whom to wake when there is more.
    pub(crate) fn take(&self, task: &Waker, spare: BytesMut) -> Outgoing {
        let mut out = self.lock();
        out.gather_acks();
        if !out.task.as_ref().is_some_and(|known| known.will_wake(task)) {
            out.task = Some(task.clone());
        }
        Outgoing { bytes: std::mem::replace(&mut out.bytes, spare), last: out.closing }
    }

    fn lock(&self) -> MutexGuard<'_, Out> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Out {
    /// Adds a command.
    pub(crate) fn command(&mut self, command: &Command) {
        self.gather_acks();
        command.encode(&mut self.bytes);
    }

    /// The buffer, for a publish; publishes and acks keep no order between them.
    pub(crate) fn publish(&mut self) -> &mut BytesMut {
        &mut self.bytes
    }

    /// Adds an individual ack without asking for an answer.
    pub(crate) fn ack(&mut self, consumer_id: u64, id: wire::MessageId) {
        if self.acking != consumer_id {
            self.gather_acks();
            self.acking = consumer_id;
        }
        self.acks.push(id);
    }

    fn gather_acks(&mut self) {
        if self.acks.is_empty() {
            return;
        }
        let ack = Command::Ack(Ack {
            consumer_id: self.acking,
            ack_type: AckType::Individual,
            ids: AckIds::Many(std::mem::take(&mut self.acks)),
            validation_error: None,
            properties: Vec::new(),
            txn: None,
            request_id: None,
        });
        ack.encode(&mut self.bytes);
        if let Command::Ack(Ack { ids: AckIds::Many(mut ids), .. }) = ack {
            ids.clear();
            self.acks = ids;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Waker};

    use super::*;

    fn acks(bytes: &BytesMut) -> usize {
        // Type number 10, as the first field of the envelope.
        bytes.windows(3).filter(|window| window[0] == 8 && window[1] == 10 && window[2] == 82).count()
    }

    #[test]
    fn acks_of_one_consumer_leave_as_one_command_until_something_else_follows() {
        let outbox = Outbox::default();
        let task = Context::from_waker(Waker::noop()).waker().clone();
        outbox.write(|out| (0..5).for_each(|entry| out.ack(1, wire::MessageId::new(1, entry))));
        assert_eq!(acks(&outbox.take(&task, BytesMut::new()).bytes), 1);
        outbox.write(|out| {
            out.ack(1, wire::MessageId::new(1, 5));
            out.command(&Command::Ping);
            out.ack(1, wire::MessageId::new(1, 6));
            out.ack(2, wire::MessageId::new(1, 7));
        });
        assert_eq!(acks(&outbox.take(&task, BytesMut::new()).bytes), 3);
        assert!(outbox.take(&task, BytesMut::new()).bytes.is_empty());
    }
}
