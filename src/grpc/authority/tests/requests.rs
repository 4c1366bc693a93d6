//! Requests in every form that a client may send.

use super::{
    client::{
        AUTHORITY_INDEX, Coding, DATA, END_STREAM, Framing, Indexing, Name, authority, block,
        frame, headers, indexed, literal, opening, size_update,
    },
    server::{End, Served, repaired, stock},
};

const SENT: &[u8] = b"%2Fhome%2Fargocd%2Fp-v1.0.sock";
const LEGAL: &str = "-2Fhome-2Fargocd-2Fp-v1.0.sock";

/// A field after the authority, which must arrive intact.
fn user_agent() -> Vec<u8> {
    literal(Indexing::Incremental, Name::Index(58), Coding::Huffman, b"grpc-go/1.75.1")
}

fn request(authority: &[u8]) -> Vec<u8> {
    headers(1, &block(authority, &user_agent()), &Framing::default())
}

#[track_caller]
fn assert_seen(served: &Served, authorities: &[&str]) {
    let seen: Vec<_> = served.requests.iter().map(|seen| seen.authority.as_str()).collect();
    assert_eq!(seen, authorities, "{served:?}");
    for seen in &served.requests {
        assert_eq!(seen.path, "/p.S/M");
        assert_eq!(seen.fields, [("user-agent".into(), b"grpc-go/1.75.1".into())]);
    }
    assert_eq!(served.failure, None);
}

#[test]
fn the_three_forms_of_a_socket_path_arrive_as_authorities() {
    let forms = [
        ("home%2Fargocd%2Fcmp-server%2Fp.sock", "home-2Fargocd-2Fcmp-server-2Fp.sock"),
        ("%2Fhome%2Fargocd%2Fcmp-server%2Fp.sock", "-2Fhome-2Fargocd-2Fcmp-server-2Fp.sock"),
        ("/home/argocd/cmp-server/p.sock", "-home-argocd-cmp-server-p.sock"),
    ];
    for (sent, legal) in forms {
        let bytes = [opening(), request(&authority(sent.as_bytes()))].concat();
        assert_seen(&stock(&bytes, usize::MAX, End::Silence), &[]);
        assert_seen(&repaired(&bytes, usize::MAX, End::Silence), &[legal]);
    }
}

#[test]
fn every_representation_of_the_authority_is_found() {
    let names = [
        Name::Index(AUTHORITY_INDEX),
        Name::Literal(Coding::Raw, b":authority"),
        Name::Literal(Coding::Huffman, b":authority"),
    ];
    for name in names {
        for indexing in [Indexing::Incremental, Indexing::Without, Indexing::Never] {
            for coding in [Coding::Raw, Coding::Huffman] {
                let field = literal(indexing, name, coding, SENT);
                let bytes = [opening(), request(&field)].concat();
                assert_seen(&repaired(&bytes, 7, End::Silence), &[LEGAL]);
            }
        }
    }
}

#[test]
fn long_authorities_keep_their_length() {
    for length in [126, 127, 128, 254, 255, 256, 5_000] {
        let legal = "-".repeat(length);
        for coding in [Coding::Raw, Coding::Huffman] {
            let name = Name::Index(AUTHORITY_INDEX);
            let field = literal(Indexing::Without, name, coding, &b"/".repeat(length));
            let bytes = [opening(), request(&field)].concat();
            assert_seen(&repaired(&bytes, 4_096, End::Silence), &[legal.as_str()]);
        }
    }
}

#[test]
fn a_block_that_outgrows_its_frame_is_continued() {
    // 14,000 bytes of Huffman code decode to 18,666 bytes.
    let value = b"/a".repeat(9_333);
    for (priority, cuts) in [(false, vec![]), (true, vec![]), (true, vec![0, 9, 9])] {
        let framing = Framing { priority, cuts, ..Framing::default() };
        let frames = headers(1, &block(&authority(&value), &user_agent()), &framing);
        assert!(frames.len() < 14_200);
        let bytes = [opening(), frames].concat();
        let legal = "-a".repeat(9_333);
        assert_seen(&repaired(&bytes, 1_000, End::Silence), &[legal.as_str()]);
    }
}

#[test]
fn later_requests_refer_to_the_repaired_entry() {
    let mut bytes = opening();
    bytes.extend(request(&authority(SENT)));
    for stream in [3, 5, 7] {
        // Index 62 is the newest entry, the user agent; 63 is the authority.
        let again = block(&indexed(63), &indexed(62));
        bytes.extend(headers(stream, &again, &Framing::default()));
    }
    assert_seen(&repaired(&bytes, 50, End::Silence), &[LEGAL; 4]);
}

#[test]
fn the_table_may_be_resized_before_the_first_field() {
    let resized = [size_update(0), size_update(4_096), block(&authority(SENT), &user_agent())];
    let first = headers(1, &resized.concat(), &Framing::default());
    let again = headers(3, &block(&indexed(63), &indexed(62)), &Framing::default());
    let bytes = [opening(), first, again].concat();
    assert_seen(&repaired(&bytes, 11, End::Silence), &[LEGAL; 2]);
}

#[test]
fn padding_priority_and_any_cut_into_frames_are_understood() {
    let block = block(&authority(SENT), &user_agent());
    for padding in [None, Some(0), Some(1), Some(255)] {
        for priority in [false, true] {
            for cut in 0..=block.len() {
                let cuts = vec![cut];
                let framing = Framing { padding, priority, cuts };
                let bytes = [opening(), headers(1, &block, &framing)].concat();
                assert_seen(&repaired(&bytes, usize::MAX, End::Silence), &[LEGAL]);
            }
        }
    }
}

#[test]
fn a_block_may_come_byte_by_byte_in_frames_of_one_byte() {
    let block = block(&authority(SENT), &user_agent());
    let framing = Framing { cuts: (1..block.len()).collect(), ..Framing::default() };
    let bytes = [opening(), headers(1, &block, &framing)].concat();
    assert_seen(&repaired(&bytes, 1, End::Silence), &[LEGAL]);
}

#[test]
fn requests_between_other_frames_are_repaired() {
    let mut bytes = opening();
    let mut open = request(&authority(SENT));
    // The stream stays open, because a body follows.
    open[4] &= !END_STREAM;
    bytes.extend(open);
    bytes.extend(frame(DATA, 0, 1, &[0x82; 1_024]));
    bytes.extend(headers(3, &block(&authority(b"/p.sock"), &user_agent()), &Framing::default()));
    bytes.extend(frame(DATA, END_STREAM, 1, &[]));
    for piece in [1, 9, 10, 500, usize::MAX] {
        assert_seen(&repaired(&bytes, piece, End::Silence), &[LEGAL, "-p.sock"]);
    }
}

#[test]
fn every_byte_survives_the_huffman_code() {
    let printed: Vec<u8> = (0x20..=0x7e).chain(0x80..=0xff).collect();
    for byte in printed {
        let value = [b'a', byte, b'z'];
        let field = literal(
            Indexing::Without,
            Name::Literal(Coding::Huffman, b"x"),
            Coding::Huffman,
            &value,
        );
        let request = headers(1, &block(&authority(SENT), &field), &Framing::default());
        let served = repaired(&[opening(), request].concat(), usize::MAX, End::Silence);
        assert_eq!(served.requests[0].authority, LEGAL);
        assert_eq!(served.requests[0].fields, [("x".into(), value.into())]);
    }
}
