//! One module per behaviour, as a client sees it: against the real binary, over real sockets.

mod admin;
mod batch_acks;
mod chunks;
mod command_line;
mod delayed;
mod durability;
mod endpoints;
mod exclusive;
mod hostile;
mod house;
mod key_shared;
mod last_message_id;
mod many_topics;
mod non_persistent;
mod produce_consume;
mod readers;
mod receipts;
mod redelivery;
mod restart;
mod second_broker;
mod seek;
mod shared;
mod talk;
mod ttl;
mod watch;
