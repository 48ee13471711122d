//! Deliberate mistakes that tests switch on to prove that they would be noticed.

/// All off unless a test says otherwise.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    /// A batch uses one permit, however many messages it has.
    pub permits_per_entry: bool,
    /// A receipt carries the batch's highest sequence id in place of the one it was sent with.
    pub highest_id_in_receipt: bool,
    /// Entries of a consumer that leaves are sent again as if for the first time.
    pub count_not_raised_on_close: bool,
    /// The next active consumer of a Failover subscription goes on where the one before was.
    pub takeover_without_rewind: bool,
    /// Sequence ids that are already known are taken for new ones.
    pub duplicates_are_new: bool,
    /// A Key_Shared consumer that gets a range is sent new entries of keys whose old owner holds some.
    pub draining_ignored: bool,
    /// A new entry of a key goes past those that wait.
    pub replay_ignored: bool,
    /// A redelivered entry uses one permit too many.
    pub permit_leaked: bool,
    /// Parts of a larger message go round over the consumers like any other entry.
    pub parts_go_round: bool,
    /// What is acked of a batch is not written, so a restart forgets it.
    pub batch_bits_not_written: bool,
    /// Delayed messages are delivered at once.
    pub delays_ignored: bool,
    /// A publish goes past those of its producer that wait for the topic's rate.
    pub held_overtaken: bool,
    /// A subscription that was over a rate is not looked at again when its time has come.
    pub rate_never_ends: bool,
}
