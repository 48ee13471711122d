//! A whole server in this process, its stores in memory and failing on demand, and peers that speak the bare protocol:
//! what happens when things overlap, end in the middle, or are too much.

mod attach;
mod budgets;
mod delete;
mod drain;
mod harness;
mod hostile;
mod loading;
mod lookup;
mod rates;
mod silence;
mod storage;
