use bytes::{Bytes, BytesMut};
use proptest::prelude::*;
use wire::payload::{build, compress, decompress, parts, peek, push_single_message};
use wire::proto::{EncryptionKeys, MessageMetadata, SingleMessageMetadata};

use super::*;

/// A message: its key, if it has one, and its value, empty for none.
type Message<'a> = (Option<&'a str>, &'a str);

fn least() -> MessageMetadata {
    MessageMetadata { producer_name: "p".to_owned(), sequence_id: 1, publish_time: 2, ..MessageMetadata::default() }
}

fn entry(metadata: &MessageMetadata, body: &[u8]) -> Bytes {
    let mut out = BytesMut::new();
    build(metadata, body, &mut out);
    out.freeze()
}

fn single(message: Message<'_>) -> Bytes {
    entry(&MessageMetadata { partition_key: message.0.map(str::to_owned), ..least() }, message.1.as_bytes())
}

fn batch(compression: i32, messages: &[Message<'_>]) -> Bytes {
    let mut body = BytesMut::new();
    for (key, value) in messages {
        let mut metadata = SingleMessageMetadata { partition_key: key.map(str::to_owned), ..SingleMessageMetadata::default() };
        push_single_message(&mut body, &mut metadata, value.as_bytes());
    }
    let metadata = MessageMetadata {
        num_messages_in_batch: Some(messages.len() as i32),
        compression: Some(compression),
        uncompressed_size: Some(body.len() as u32),
        ..least()
    };
    entry(&metadata, &compress(compression, &body).unwrap())
}

/// What is left of each message of an entry: index and value.
fn left(entry: &Bytes) -> Vec<(usize, String)> {
    let peek = peek(entry).unwrap();
    assert_eq!(wire::payload::verify(entry), Ok(()));
    if !peek.is_batch {
        return vec![(0, String::from_utf8(peek.message.to_vec()).unwrap())];
    }
    let body = decompress(peek.compression, parts(entry).unwrap().message, peek.uncompressed_size, 1 << 20).unwrap();
    let messages = wire::payload::SingleMessages::new(body.into(), peek.messages).map(Result::unwrap).enumerate();
    let there = messages.filter(|(_, (metadata, _))| !metadata.compacted_out());
    there.map(|(index, (_, bytes))| (index, String::from_utf8(bytes.to_vec()).unwrap())).collect()
}

/// What a compaction leaves of each entry.
fn compacted_by(mut plan: Plan, entries: &[Bytes]) -> Vec<Option<Bytes>> {
    loop {
        entries.iter().for_each(|entry| plan.look_at(entry));
        if !plan.end_pass() {
            break;
        }
    }
    let mut rewrite = plan.finish();
    entries.iter().map(|entry| rewrite.entry(entry)).collect()
}

fn compacted(entries: &[Bytes]) -> Vec<Vec<(usize, String)>> {
    compacted_by(Plan::new(false, 1000), entries).into_iter().map(|entry| entry.as_ref().map(left).unwrap_or_default()).collect()
}

fn whole(value: &str) -> Vec<(usize, String)> {
    vec![(0, value.to_owned())]
}

#[test]
fn the_newest_of_a_key_stays_and_a_key_without_a_value_goes() {
    let entries = [(Some("a"), "1"), (Some("b"), "1"), (Some("a"), "2"), (Some("b"), ""), (Some("c"), "1"), (None, "x")].map(single);
    let nothing = Vec::new();
    assert_eq!(compacted(&entries), [nothing.clone(), nothing.clone(), whole("2"), nothing.clone(), whole("1"), nothing]);
}

#[test]
fn a_key_that_had_no_value_may_have_one_again() {
    let entries = [(Some("a"), "1"), (Some("a"), ""), (Some("a"), "2")].map(single);
    assert_eq!(compacted(&entries), [vec![], vec![], whole("2")]);
}

#[test]
fn a_null_value_deletes_even_if_bytes_come_with_it() {
    let metadata = MessageMetadata { partition_key: Some("a".to_owned()), null_value: Some(true), ..least() };
    assert_eq!(compacted(&[single((Some("a"), "1")), entry(&metadata, b"x")]), [vec![], vec![]]);
    let packed = MessageMetadata { partition_key: Some("a".to_owned()), compression: Some(1), uncompressed_size: Some(0), ..least() };
    assert_eq!(compacted(&[single((Some("a"), "1")), entry(&packed, &compress(1, b"").unwrap())]), [vec![], vec![]]);
}

#[test]
fn messages_without_a_key_stay_if_they_are_to() {
    let entries = [single((None, "x")), batch(0, &[(None, "y"), (Some("a"), "1"), (Some("a"), "2")])];
    let found = compacted_by(Plan::new(true, 10), &entries);
    assert_eq!(found[0].as_ref(), Some(&entries[0]));
    assert_eq!(left(found[1].as_ref().unwrap()), [(0, "y".to_owned()), (2, "2".to_owned())]);
}

#[test]
fn messages_of_a_batch_go_one_by_one_and_the_others_keep_their_index() {
    for compression in 0..=4 {
        let first = batch(compression, &[(Some("a"), "1"), (Some("b"), "1"), (None, "x"), (Some("c"), "1")]);
        let second = batch(compression, &[(Some("a"), "2"), (Some("c"), "")]);
        let found = compacted_by(Plan::new(false, 10), &[first.clone(), second.clone()]);
        let kept = found[0].as_ref().unwrap();
        assert_eq!(left(kept), [(1, "1".to_owned())], "{compression}");
        assert_eq!(peek(kept).unwrap().messages, 4);
        assert_eq!(peek(kept).unwrap().compression, compression);
        assert_eq!(left(found[1].as_ref().unwrap()), [(0, "2".to_owned())]);
        // And once more, with what came since.
        let again = compacted_by(Plan::new(false, 10), &[kept.clone(), single((Some("b"), "2"))]);
        assert_eq!(again[0], None);
        assert_eq!(left(again[1].as_ref().unwrap()), whole("2"));
    }
}

#[test]
fn a_batch_that_stays_whole_stays_byte_for_byte() {
    let entries = [batch(3, &[(Some("a"), "1"), (Some("b"), "1")])];
    assert_eq!(compacted_by(Plan::new(false, 10), &entries), [Some(entries[0].clone())]);
}

#[test]
fn what_cannot_be_read_stays() {
    let secret = EncryptionKeys { key: "k".to_owned(), value: Bytes::from_static(b"v"), metadata: Vec::new() };
    let encrypted = MessageMetadata { encryption_keys: vec![secret], num_messages_in_batch: Some(3), ..least() };
    let torn = MessageMetadata { num_messages_in_batch: Some(3), ..least() };
    let entries = [entry(&encrypted, b"noise"), entry(&torn, b"noise"), Bytes::from_static(b"no entry at all")];
    let found = compacted_by(Plan::new(false, 10), &entries);
    assert_eq!(found, entries.map(Some));
}

#[test]
fn an_encrypted_message_is_compacted_by_its_key() {
    let secret = EncryptionKeys { key: "k".to_owned(), value: Bytes::from_static(b"v"), metadata: Vec::new() };
    let metadata = MessageMetadata { encryption_keys: vec![secret], partition_key: Some("a".to_owned()), ..least() };
    let entries = [entry(&metadata, b"noise"), entry(&metadata, b"other noise")];
    assert_eq!(compacted_by(Plan::new(false, 10), &entries), [None, Some(entries[1].clone())]);
}

fn part(key: &str, uuid: &str, id: i32, count: i32) -> Bytes {
    let metadata = MessageMetadata {
        partition_key: Some(key.to_owned()),
        uuid: Some(uuid.to_owned()),
        chunk_id: Some(id),
        num_chunks_from_msg: Some(count),
        total_chunk_msg_size: Some(10),
        ..least()
    };
    entry(&metadata, b"part")
}

#[test]
fn the_parts_of_a_larger_message_stay_and_go_together() {
    let entries = [
        part("a", "first", 0, 3),
        part("a", "first", 1, 3),
        single((Some("b"), "1")),
        part("a", "first", 2, 3),
        part("a", "second", 0, 2),
        part("a", "second", 1, 2),
        part("c", "unfinished", 0, 2),
    ];
    let stays: Vec<bool> = compacted_by(Plan::new(false, 10), &entries).iter().map(Option::is_some).collect();
    assert_eq!(stays, [false, false, true, false, true, true, true]);
}

/// Messages as a model keeps them.
fn model(entries: &[Vec<(Option<u8>, u8)>]) -> Vec<Vec<(usize, String)>> {
    let mut newest: std::collections::BTreeMap<u8, (usize, usize)> = std::collections::BTreeMap::new();
    for (at, messages) in entries.iter().enumerate() {
        for (index, (key, value)) in messages.iter().enumerate() {
            if let Some(key) = key {
                newest.remove(key);
                if *value > 0 {
                    newest.insert(*key, (at, index));
                }
            }
        }
    }
    let stays = |at, index, key: &Option<u8>| key.is_some_and(|key| newest.get(&key) == Some(&(at, index)));
    let of = |(at, messages): (usize, &Vec<(Option<u8>, u8)>)| {
        let kept = messages.iter().enumerate().filter(|(index, (key, _))| stays(at, *index, key));
        kept.map(|(index, (_, value))| (index, value.to_string())).collect()
    };
    entries.iter().enumerate().map(of).collect()
}

proptest! {
    #[test]
    fn however_few_keys_are_compared_at_a_time_the_same_stays(
        entries in proptest::collection::vec((0i32..5, proptest::collection::vec((proptest::option::weighted(0.9, 0u8..12), 0u8..4), 1..5)), 1..30),
        most_keys in 1usize..8,
    ) {
        let bytes: Vec<Bytes> = entries
            .iter()
            .map(|(compression, messages)| {
                let texts: Vec<(Option<String>, String)> = messages
                    .iter()
                    .map(|(key, value)| (key.map(|key| key.to_string()), if *value > 0 { value.to_string() } else { String::new() }))
                    .collect();
                let messages: Vec<Message<'_>> = texts.iter().map(|(key, value)| (key.as_deref(), value.as_str())).collect();
                match messages.as_slice() {
                    [one] if *compression == 0 => single(*one),
                    many => batch(*compression, many),
                }
            })
            .collect();
        let found: Vec<Vec<(usize, String)>> = compacted_by(Plan::new(false, most_keys), &bytes)
            .iter()
            .map(|entry| entry.as_ref().map(left).unwrap_or_default())
            .collect();
        let entries: Vec<Vec<(Option<u8>, u8)>> = entries.into_iter().map(|(_, messages)| messages).collect();
        prop_assert_eq!(found, model(&entries));
    }

    #[test]
    fn no_entry_upsets_a_plan(entries in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..60), 0..10)) {
        let entries: Vec<Bytes> = entries.into_iter().map(Bytes::from).collect();
        compacted_by(Plan::new(false, 2), &entries);
    }
}
