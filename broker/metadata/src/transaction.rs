//! What a transaction is made of: checked writes, all or nothing.

/// What a node must be like for an operation to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Expected {
    /// For a put: anything, also absent. For a delete or a check: the node exists.
    Any,
    /// The node does not exist.
    Absent,
    /// The node exists at this version.
    Version(i64),
}

/// One step of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// Creates the node at version 0, or replaces its value and raises its version by one. Outcome: the version it has now.
    /// Missing parents are created, empty, at version 0. A replaced node keeps being ephemeral or not.
    Put {
        /// The node.
        path: String,
        /// Its value.
        value: Vec<u8>,
        /// What it must be like.
        expected: Expected,
        /// The session it ends with, if it is created ephemeral.
        session: Option<u64>,
    },
    /// Removes the node, which must exist and have no children. Outcome: the version it had.
    Delete {
        /// The node.
        path: String,
        /// What it must be like; `Absent` is refused unless the node is absent, and then does nothing.
        expected: Expected,
    },
    /// Changes nothing. Outcome: the version found, -1 when absent as expected.
    Check {
        /// The node.
        path: String,
        /// What it must be like.
        expected: Expected,
    },
    /// Changes nothing; the node must have no children. A node that does not exist has none. Outcome: 0.
    CheckEmpty {
        /// The node.
        path: String,
    },
    /// Takes `count` numbers that nobody gets again, not even after the node of that path is deleted or the store is restarted.
    /// Outcome: the first of them; the very first is 0.
    Reserve {
        /// The name of the sequence, of the same form as a node's path.
        path: String,
        /// How many; 0 takes none and tells the next.
        count: u32,
    },
}

/// Operations that happen together or not at all. Each sees what the ones before it did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Transaction {
    pub(crate) ops: Vec<Op>,
}

impl Transaction {
    /// One without operations; committing it succeeds with no outcomes.
    pub fn new() -> Transaction {
        Transaction::default()
    }
    /// Adds a put.
    #[must_use]
    pub fn put(self, path: impl Into<String>, value: impl Into<Vec<u8>>, expected: Expected) -> Transaction {
        self.and(Op::Put { path: path.into(), value: value.into(), expected, session: None })
    }
    /// Adds a put of a node that goes when `session` ends.
    #[must_use]
    pub fn put_ephemeral(
        self,
        path: impl Into<String>,
        value: impl Into<Vec<u8>>,
        expected: Expected,
        session: &crate::Session,
    ) -> Transaction {
        self.and(Op::Put { path: path.into(), value: value.into(), expected, session: Some(session.id()) })
    }
    /// Adds a delete.
    #[must_use]
    pub fn delete(self, path: impl Into<String>, expected: Expected) -> Transaction {
        self.and(Op::Delete { path: path.into(), expected })
    }
    /// Adds a check of one node.
    #[must_use]
    pub fn check(self, path: impl Into<String>, expected: Expected) -> Transaction {
        self.and(Op::Check { path: path.into(), expected })
    }
    /// Adds a check that a node has no children.
    #[must_use]
    pub fn check_empty(self, path: impl Into<String>) -> Transaction {
        self.and(Op::CheckEmpty { path: path.into() })
    }
    /// Adds a reservation of numbers.
    #[must_use]
    pub fn reserve(self, path: impl Into<String>, count: u32) -> Transaction {
        self.and(Op::Reserve { path: path.into(), count })
    }
    /// Adds any operation.
    #[must_use]
    pub fn and(mut self, op: Op) -> Transaction {
        self.ops.push(op);
        self
    }
    /// The operations, in order.
    pub fn ops(&self) -> &[Op] {
        &self.ops
    }
    /// Bytes of paths and values, for bounding queues.
    pub(crate) fn bytes(&self) -> usize {
        let size = |op: &Op| match op {
            Op::Put { path, value, .. } => path.len() + value.len(),
            Op::Delete { path, .. } | Op::Check { path, .. } | Op::CheckEmpty { path } | Op::Reserve { path, .. } => path.len(),
        };
        self.ops.iter().map(|op| size(op) + size_of::<Op>()).sum::<usize>() + size_of::<Transaction>()
    }
}
