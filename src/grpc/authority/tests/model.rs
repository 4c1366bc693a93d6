//! Property tests with random clients and random bytes.

use std::collections::VecDeque;

use bytes::BytesMut;
use proptest::{collection::vec, option, prelude::*, sample::Index};

use super::{
    super::{Repair, legal::legal},
    client::{
        AUTHORITY_INDEX, Coding, DATA, Framing, Indexing, Name, block, frame, headers, indexed,
        literal, opening,
    },
    pieces::pushed,
    server::{End, Seen, repaired},
};

/// Default size of the dynamic table in bytes.
const TABLE_SIZE: usize = 4_096;

/// Bytes that RFC 7541 (4.1) adds to the size of an entry.
const ENTRY_OVERHEAD: usize = 32;

/// Number of entries in the static table.
const STATIC_ENTRIES: usize = 61;

type Entry = (Vec<u8>, Vec<u8>);

/// A client's HPACK encoder. It uses its table whenever it can, so one wrong
/// entry breaks all later requests.
#[derive(Default)]
struct Encoder {
    table: VecDeque<Entry>,
}

impl Encoder {
    fn field(&mut self, name: &[u8], field: &Field) -> Vec<u8> {
        let entry = (name.to_vec(), field.value.clone());
        if let Some(place) = self.table.iter().position(|known| *known == entry) {
            return indexed(STATIC_ENTRIES + 1 + place);
        }
        if field.indexing == Indexing::Incremental {
            self.insert(entry);
        }
        let name = if name == b":authority" && field.by_index {
            Name::Index(AUTHORITY_INDEX)
        } else {
            Name::Literal(field.name_coding, name)
        };
        literal(field.indexing, name, field.coding, &field.value)
    }

    fn insert(&mut self, entry: Entry) {
        self.table.push_front(entry);
        let size = |(name, value): &Entry| name.len() + value.len() + ENTRY_OVERHEAD;
        while self.table.iter().map(size).sum::<usize>() > TABLE_SIZE {
            self.table.pop_back();
        }
    }
}

#[derive(Clone, Debug)]
struct Field {
    value: Vec<u8>,
    coding: Coding,
    name_coding: Coding,
    by_index: bool,
    indexing: Indexing,
}

#[derive(Clone, Debug)]
struct Request {
    authority: Field,
    fields: Vec<(u8, Field)>,
    padding: Option<u8>,
    priority: bool,
    cuts: Vec<Index>,
    data: Option<Vec<u8>>,
}

fn fields(value: impl Strategy<Value = String>) -> impl Strategy<Value = Field> {
    let coding = || prop_oneof![Just(Coding::Raw), Just(Coding::Huffman)];
    let indexing = prop_oneof![
        4 => Just(Indexing::Incremental),
        1 => Just(Indexing::Without),
        1 => Just(Indexing::Never),
    ];
    (value, coding(), coding(), any::<bool>(), indexing).prop_map(
        |(value, coding, name_coding, by_index, indexing)| {
            let value = value.into_bytes();
            Field { value, coding, name_coding, by_index, indexing }
        },
    )
}

fn requests() -> impl Strategy<Value = Request> {
    let authority = prop_oneof![
        4 => "(|%2F|/)home(%2F|/)(a|b|c)[a-z .-]{0,3}[.]sock",
        2 => "[a-z]{1,3}(:[0-9]{2})?",
        1 => "[ -~]{1,400}",
    ];
    (
        fields(authority),
        vec((0..4_u8, fields("[!-~]{0,3}|[a-z]{900}")), 0..4),
        option::of(any::<u8>()),
        any::<bool>(),
        vec(any::<Index>(), 0..3),
        option::of(vec(any::<u8>(), 0..40)),
    )
        .prop_map(|(authority, fields, padding, priority, cuts, data)| Request {
            authority,
            fields,
            padding,
            priority,
            cuts,
            data,
        })
}

/// The bytes of a client that sends `requests` one after the other.
fn conversation(requests: &[Request]) -> Vec<u8> {
    let mut encoder = Encoder::default();
    let mut bytes = opening();
    for (stream, request) in (1..).step_by(2).zip(requests) {
        let authority = encoder.field(b":authority", &request.authority);
        let rest = request.fields.iter();
        let rest: Vec<u8> =
            rest.flat_map(|(name, field)| encoder.field(&[b'a' + name], field)).collect();
        let block = block(&authority, &rest);
        let mut cuts: Vec<_> = request.cuts.iter().map(|cut| cut.index(block.len() + 1)).collect();
        cuts.sort_unstable();
        let Request { padding, priority, .. } = *request;
        bytes.extend(headers(stream, &block, &Framing { padding, priority, cuts }));
        // A frame of an unknown type, which h2 ignores.
        bytes.extend(request.data.iter().flat_map(|data| frame(0x55, 0, stream, data)));
    }
    bytes
}

fn expected(request: &Request) -> Seen {
    let sent = &request.authority.value;
    let mut fields: Vec<(String, Vec<u8>)> = Vec::new();
    for (name, field) in &request.fields {
        fields.push((char::from(b'a' + name).to_string(), field.value.clone()));
    }
    Seen {
        authority: String::from_utf8(legal(sent).unwrap_or_else(|| sent.clone())).unwrap(),
        path: "/p.S/M".to_owned(),
        fields,
    }
}

/// Sorts the fields by name: a header map keeps the order only within a name.
fn sorted(mut seen: Seen) -> Seen {
    seen.fields.sort_by(|(one, _), (other, _)| one.cmp(other));
    seen
}

/// Random bytes with enough structure to get past the first frame.
fn noise() -> impl Strategy<Value = Vec<u8>> {
    let kind = prop_oneof![3 => Just(1_u8), 3 => Just(9), 1 => Just(DATA), 1 => any::<u8>()];
    let payload = prop_oneof![
        vec(any::<u8>(), 0..40),
        vec(prop_oneof![Just(0x41), Just(0x40), Just(0x0a), Just(0x82), any::<u8>()], 0..40),
        vec(any::<u8>(), 0..30).prop_map(|value| {
            literal(Indexing::Incremental, Name::Index(AUTHORITY_INDEX), Coding::Huffman, &value)
        }),
    ];
    let frames = (kind, any::<u8>(), 0..3_u32, payload, 0..20_u8).prop_map(
        |(kind, flags, stream, payload, lie)| {
            let mut frame = frame(kind, flags, stream, &payload);
            if lie == 0 {
                frame[2] ^= 0x11;
            }
            frame
        },
    );
    prop_oneof![
        4 => vec(frames, 0..12).prop_map(|frames| [opening(), frames.concat()].concat()),
        1 => vec(any::<u8>(), 0..300).prop_map(|noise| [opening(), noise].concat()),
        1 => vec(any::<u8>(), 0..300),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn a_server_sees_every_request_with_all_its_fields(
        requests in vec(requests(), 1..12),
        piece in 1..2_000_usize,
    ) {
        let served = repaired(&conversation(&requests), piece, End::Silence);
        let seen: Vec<_> = served.requests.into_iter().map(sorted).collect();
        let expected: Vec<_> = requests.iter().map(expected).map(sorted).collect();
        prop_assert_eq!(seen, expected);
        prop_assert_eq!(served.failure, None);
    }

    #[test]
    fn h2_survives_noise_behind_the_repair(noise in noise(), piece in 1..100_usize) {
        repaired(&noise, piece, End::Hangup);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn the_cutting_of_noise_does_not_matter(
        noise in noise(),
        cuts in vec(any::<Index>(), 0..20),
    ) {
        let whole = pushed(&noise, noise.len());
        prop_assert!(whole.len() <= noise.len() * 2);
        prop_assert_eq!(&pushed(&noise, 1), &whole);
        let mut cuts: Vec<_> = cuts.iter().map(|cut| cut.index(noise.len() + 1)).collect();
        cuts.sort_unstable();
        let (mut repair, mut output) = (Repair::default(), BytesMut::new());
        let mut start = 0;
        for end in cuts.into_iter().chain([noise.len()]) {
            repair.push(&noise[start..end], &mut output);
            start = end;
        }
        repair.finish(&mut output);
        prop_assert_eq!(output.as_ref(), whole.as_slice());
    }

    #[test]
    fn a_second_repair_of_noise_changes_nothing(noise in noise()) {
        let once = pushed(&noise, noise.len());
        prop_assert_eq!(pushed(&once, once.len()), once);
    }
}
