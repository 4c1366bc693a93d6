//! Tests that the cutting of the input does not matter, and that legal input stays.

use bytes::BytesMut;

use super::{
    super::Repair,
    client::{
        Coding, DATA, Framing, Indexing, Name, PREFACE, authority, block, frame, headers, indexed,
        literal, opening, size_update,
    },
};

/// The output for `bytes` in pieces of `piece` bytes, up to the end of the stream.
pub(super) fn pushed(bytes: &[u8], piece: usize) -> Vec<u8> {
    let (mut repair, mut output) = (Repair::default(), BytesMut::new());
    for piece in bytes.chunks(piece.max(1)) {
        repair.push(piece, &mut output);
    }
    repair.finish(&mut output);
    output.to_vec()
}

fn conversation() -> Vec<u8> {
    let framing = Framing { padding: Some(3), priority: true, cuts: vec![4, 20, 20] };
    let mut bytes = opening();
    bytes.extend(headers(1, &block(&authority(b"/run/p.sock"), &[]), &Framing::default()));
    bytes.extend(frame(DATA, 0, 1, &[7; 60]));
    bytes.extend(headers(3, &block(&authority(b"run%2Fp.sock"), &[]), &framing));
    bytes.extend(frame(DATA, 0, 1, &[]));
    bytes.extend(headers(5, &block(&indexed(62), &[]), &Framing::default()));
    bytes.extend(frame(DATA, 1, 1, &[8; 30]));
    bytes
}

#[test]
fn the_size_of_the_pieces_does_not_matter() {
    let bytes = conversation();
    let whole = pushed(&bytes, bytes.len());
    assert_ne!(whole, bytes);
    for piece in 1..bytes.len() {
        assert_eq!(pushed(&bytes, piece), whole, "pieces of {piece}");
    }
}

#[test]
fn a_cut_at_any_position_does_not_matter() {
    let bytes = conversation();
    let whole = pushed(&bytes, bytes.len());
    for cut in 0..=bytes.len() {
        let (mut repair, mut output) = (Repair::default(), BytesMut::new());
        repair.push(&bytes[..cut], &mut output);
        repair.push(&bytes[cut..], &mut output);
        assert_eq!(output, whole, "cut at {cut}");
    }
}

#[test]
fn a_complete_block_is_released_at_once() {
    let bytes = conversation();
    let (mut repair, mut output) = (Repair::default(), BytesMut::new());
    repair.push(&bytes, &mut output);
    let delivered = output.len();
    repair.finish(&mut output);
    assert_eq!(output.len(), delivered);
}

#[test]
fn a_second_repair_changes_nothing() {
    let repaired = pushed(&conversation(), 10);
    assert_eq!(pushed(&repaired, 10), repaired);
}

#[test]
fn legal_authorities_pass_byte_for_byte() {
    for value in ["localhost", "localhost:50051", "[::1]:80", "user%40x@host", "p-v1.0.sock", ""] {
        for coding in [Coding::Raw, Coding::Huffman] {
            let field = literal(Indexing::Incremental, Name::Index(1), coding, value.as_bytes());
            let framing = Framing { padding: Some(9), priority: true, cuts: vec![3, 12] };
            let bytes = [opening(), headers(1, &block(&field, &[]), &framing)].concat();
            assert_eq!(pushed(&bytes, 5), bytes, "{value}");
        }
    }
}

#[test]
fn other_paths_and_names_stay() {
    let fields = [
        literal(Indexing::Incremental, Name::Index(38), Coding::Huffman, b"/host%2F"),
        literal(Indexing::Never, Name::Literal(Coding::Huffman, b":authorit"), Coding::Raw, b"/a"),
        literal(
            Indexing::Without,
            Name::Literal(Coding::Raw, b"authority"),
            Coding::Huffman,
            b"/a",
        ),
    ];
    let block = block(&authority(b"host"), &fields.concat());
    let bytes = [opening(), headers(1, &block, &Framing::default())].concat();
    assert_eq!(pushed(&bytes, 8), bytes);
}

#[test]
fn other_static_indices_are_not_the_authority() {
    for index in 2..400 {
        let named = |indexing| literal(indexing, Name::Index(index), Coding::Raw, b"/x");
        for before in [
            named(Indexing::Incremental),
            named(Indexing::Without),
            named(Indexing::Never),
            indexed(index),
            size_update(index),
        ] {
            let bytes = |value: &[u8]| {
                let field = literal(Indexing::Without, Name::Index(1), Coding::Raw, value);
                let block = [before.as_slice(), &field].concat();
                [opening(), headers(1, &block, &Framing::default())].concat()
            };
            assert_eq!(pushed(&bytes(b"/x"), 100), bytes(b"-x"), "{index}");
        }
    }
}

#[test]
fn a_raw_value_keeps_its_length() {
    let field = literal(Indexing::Without, Name::Index(1), Coding::Raw, b"/a%b");
    let bytes = [opening(), headers(1, &block(&field, &[]), &Framing::default())].concat();
    let repaired = pushed(&bytes, bytes.len());
    let changed: Vec<_> = bytes.iter().zip(&repaired).filter(|(old, new)| old != new).collect();
    assert_eq!(repaired.len(), bytes.len());
    assert_eq!(changed, [(&b'/', &b'-'), (&b'%', &b'-')]);
}

#[test]
fn other_protocols_pass_unchanged() {
    let foreign = [
        b"GET / HTTP/1.1\r\nHost: a\r\n\r\n\0\0\0\x01\x04\0\0\0\x01 and more".to_vec(),
        [&[b'x'; PREFACE.len()], &conversation()[PREFACE.len()..]].concat(),
        PREFACE[..10].to_vec(),
    ];
    for bytes in foreign {
        for piece in [1, 5, 24, bytes.len()] {
            assert_eq!(pushed(&bytes, piece), bytes);
        }
    }
}
