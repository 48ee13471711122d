//! Every command of the protocol, made up at random from the protocol's description by another codec, passes through ours unchanged.

mod made_up;

use bytes::{Bytes, BytesMut};
use fastrand::Rng;
use geminga_wire as wire;
use made_up::{any_command, bodies, described};
use proptest::prelude::*;
use prost::Message as _;
use prost_reflect::{Cardinality, DynamicMessage, Kind, ReflectMessage, Value};
use wire::{Command, DecodeError, FrameDecoder, proto::BaseCommand};

fn encoded(command: &Command) -> Bytes {
    let mut frame = BytesMut::new();
    command.encode(&mut frame);
    frame.freeze().slice(8..)
}

fn decoded(bytes: Vec<u8>) -> Result<Command, DecodeError> {
    Command::decode(bytes.into())
}

#[test]
fn every_command_of_the_description_is_known_by_its_number() {
    let base = described();
    assert_eq!(bodies(&base).count(), 58);
    for body in bodies(&base) {
        assert!(wire::type_name(body.number() as i32).is_some(), "{}", body.name());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_command_encodes_to_the_bytes_it_was_decoded_from(seed: u64) {
        let (mut rng, base) = (Rng::with_seed(seed), described());
        for body in bodies(&base) {
            let other = any_command(&mut rng, &base, &body).encode_to_vec();
            let command = decoded(other.clone()).unwrap();
            prop_assert_eq!(command.type_number(), body.number() as i32);
            prop_assert_eq!(&encoded(&command)[..], &other[..], "{}", command.name());
            prop_assert_eq!(BaseCommand::decode(encoded(&command)), BaseCommand::decode(&other[..]));
        }
    }

    #[test]
    fn a_body_in_front_of_its_type_is_the_same_command(seed: u64) {
        let (mut rng, base) = (Rng::with_seed(seed), described());
        for body in bodies(&base) {
            let usual = any_command(&mut rng, &base, &body).encode_to_vec();
            // The type is two bytes: its tag, and a number below 128.
            let swapped = [&usual[2..], &usual[..2]].concat();
            prop_assert_eq!(decoded(swapped).unwrap(), decoded(usual).unwrap());
        }
    }

    #[test]
    fn the_order_of_fields_in_a_body_does_not_matter(seed: u64) {
        let (mut rng, base) = (Rng::with_seed(seed), described());
        for body in bodies(&base) {
            let usual = any_command(&mut rng, &base, &body);
            let Value::Message(part) = usual.get_field(&body).into_owned() else { unreachable!() };
            let mut fields: Vec<Vec<u8>> = part.descriptor().fields().filter(|field| part.has_field(field)).map(|field| {
                let mut alone = DynamicMessage::new(part.descriptor());
                alone.set_field(&field, part.get_field(&field).into_owned());
                alone.encode_to_vec()
            }).collect();
            rng.shuffle(&mut fields);
            prop_assert_eq!(decoded(enveloped(body.number(), &fields.concat())).unwrap(), decoded(usual.encode_to_vec()).unwrap());
        }
    }

    #[test]
    fn fields_of_a_later_protocol_are_passed_over(seed: u64) {
        let (mut rng, base) = (Rng::with_seed(seed), described());
        for body in bodies(&base) {
            let usual = any_command(&mut rng, &base, &body);
            let Value::Message(part) = usual.get_field(&body).into_owned() else { unreachable!() };
            // Field 1000 is a number, field 1001 has bytes.
            let later = [&part.encode_to_vec()[..], &[0xc0, 0x3e, 5, 0xca, 0x3e, 1, 9]].concat();
            prop_assert_eq!(decoded(enveloped(body.number(), &later)).unwrap(), decoded(usual.encode_to_vec()).unwrap());
        }
    }

    #[test]
    fn a_missing_required_field_is_named(seed: u64) {
        let (mut rng, base) = (Rng::with_seed(seed), described());
        for body in bodies(&base) {
            let whole = any_command(&mut rng, &base, &body);
            let Kind::Message(described) = body.kind() else { unreachable!() };
            for required in described.fields().filter(|field| field.cardinality() == Cardinality::Required) {
                let mut part = whole.get_field(&body).as_message().unwrap().clone();
                part.clear_field(&required);
                let error = decoded(enveloped(body.number(), &part.encode_to_vec())).unwrap_err();
                let DecodeError::MissingField { field, .. } = error else { panic!("{error}") };
                prop_assert_eq!(field, required.name());
            }
        }
    }

    #[test]
    fn no_flipped_byte_and_no_truncation_makes_a_decoder_panic(seed: u64) {
        let (mut rng, base) = (Rng::with_seed(seed), described());
        for body in bodies(&base) {
            let mut bytes = any_command(&mut rng, &base, &body).encode_to_vec();
            let at = rng.usize(..bytes.len());
            bytes[at] = rng.u8(..);
            if rng.bool() {
                bytes.truncate(rng.usize(..=bytes.len()));
            }
            if let Ok(command) = decoded(bytes) {
                // What was accepted can be sent on and is still the same.
                prop_assert_eq!(decoded(encoded(&command).to_vec()).unwrap(), command);
            }
        }
    }

    #[test]
    fn random_bytes_make_no_decoder_panic(bytes: Vec<u8>) {
        let _ = decoded(bytes.clone());
        let _ = FrameDecoder::new(1000).decode(&mut BytesMut::from(&bytes[..]));
        let _ = wire::payload::verify(&bytes);
        if let Ok(peek) = wire::payload::peek(&bytes) {
            let _ = wire::payload::sticky_key(&peek).map(|key| key.map(|key| key.slot()));
        }
        for message in wire::payload::SingleMessages::new(bytes.into(), 1000) {
            let _ = message;
        }
    }
}

fn enveloped(number: u32, body: &[u8]) -> Vec<u8> {
    let mut out = vec![8, number as u8];
    prost::encoding::encode_varint(u64::from(number << 3 | 2), &mut out);
    prost::encoding::encode_varint(body.len() as u64, &mut out);
    out.extend_from_slice(body);
    out
}

#[test]
fn a_type_without_its_body_is_refused() {
    for number in [2, 6, 18] {
        let error = decoded(vec![8, number]).unwrap_err();
        assert!(matches!(error, DecodeError::MissingBody { .. }), "{error}");
    }
    // A PING that carries a FLOW.
    let error = decoded(vec![8, 18, 0x5a, 4, 8, 1, 16, 1]).unwrap_err();
    assert_eq!(error.to_string(), "PING without its body");
}

#[test]
fn a_command_of_a_later_protocol_is_named_by_its_number() {
    assert_eq!(decoded(enveloped(75, &[8, 1])), Ok(Command::Unknown(75)));
    assert_eq!(decoded(vec![8, 127]), Ok(Command::Unknown(127)));
}

#[test]
fn a_malformed_body_is_told_with_its_command() {
    let error = decoded(vec![8, 4, 0x22, 2, 10, 9]).unwrap_err();
    assert!(error.to_string().starts_with("malformed SUBSCRIBE: "), "{error}");
    let error = decoded(vec![8, 6, 0x32, 1, 8]).unwrap_err();
    assert!(error.to_string().starts_with("malformed SEND: "), "{error}");
    assert!(matches!(decoded(vec![0xff; 12]), Err(DecodeError::Envelope(_))));
}

#[test]
fn an_ack_of_a_third_type_is_refused() {
    assert_eq!(decoded(vec![8, 10, 0x52, 4, 8, 1, 16, 2]), Err(DecodeError::AckType(2)));
}

#[test]
fn a_packed_ack_set_is_read_too() {
    let packed = decoded(vec![8, 9, 0x4a, 12, 8, 1, 0x12, 4, 8, 2, 16, 3, 0x22, 2, 7, 9]).unwrap();
    let Command::Message(message) = packed else { panic!("{packed:?}") };
    assert_eq!(message.ack_set, [7, 9]);
}

#[test]
fn a_command_is_cheap_to_move() {
    assert!(size_of::<Command>() <= 176, "{}", size_of::<Command>());
    assert!(size_of::<wire::MessageId>() <= 72, "{}", size_of::<wire::MessageId>());
}
