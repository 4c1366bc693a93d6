//! Parser: from tokens to the events of the first document.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "a rule of the grammar names the tokens it takes; every other one is an error"
)]

mod block;
mod directives;
mod document;
mod flow;
mod node;

use self::directives::Directives;
use super::{
    error::Error,
    event::{Event, EventKind, Scalar},
    place::Place,
    reader::Source,
    scanner::{self, Scanner},
    token::{Text, Token, TokenKind},
};

/// Largest memory that is kept for the next document, in bytes.
const MAX_KEPT_BYTES: usize = 1 << 20;

/// The grammar rule that reads the next token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    StreamStart,
    DocumentContent,
    DocumentNode,
    DocumentEnd,
    StreamEnd,
    BlockSequence,
    IndentlessSequence,
    BlockKey,
    BlockValue,
    FlowSequence {
        is_first: bool,
    },
    /// A mapping of one entry in a flow sequence: `[a: b]`
    PairKey,
    PairValue,
    PairEnd,
    FlowKey {
        is_first: bool,
    },
    FlowValue,
    /// The missing value of a key without `:`
    FlowValueMissing,
}

/// Memory of a parser, for the next one.
#[derive(Debug, Default)]
pub(super) struct Buffers {
    scanner: scanner::Buffers,
    states: Vec<State>,
}

/// Reads events from tokens. Nesting uses heap memory, not the stack.
#[derive(Debug)]
pub(super) struct Parser<'a> {
    scanner: Scanner<'a>,
    state: State,
    /// The states to continue with after the current node.
    states: Vec<State>,
    directives: Directives,
}

impl<'a> Parser<'a> {
    pub(super) fn new(source: &'a Source<'_>, buffers: Buffers) -> Self {
        let Buffers { scanner, states } = buffers;
        Self {
            scanner: Scanner::new(source, scanner),
            state: State::StreamStart,
            states,
            directives: Directives::default(),
        }
    }

    /// The buffers for the next parser, without those that a large document needed.
    pub(super) fn into_buffers(mut self) -> Buffers {
        if self.memory() > MAX_KEPT_BYTES {
            return Buffers::default();
        }
        self.states.clear();
        Buffers { scanner: self.scanner.into_buffers(), states: self.states }
    }

    /// The characters of an event. They are valid until the next event.
    #[inline]
    pub(super) fn text(&self, text: Text) -> &[u8] {
        self.scanner.text(text)
    }

    /// Memory in bytes, without the document.
    pub(super) fn memory(&self) -> usize {
        let states = self.states.len() * size_of::<State>();
        self.scanner.memory() + self.directives.memory() + states
    }

    /// The next event. The parser reads nothing after the end of the first
    /// document.
    pub(super) fn next_event(&mut self) -> Result<Event, Error> {
        match self.state {
            State::BlockKey => self.block_key(),
            State::BlockValue => self.block_value(),
            State::BlockSequence => self.block_sequence(),
            State::IndentlessSequence => self.indentless_sequence(),
            State::FlowSequence { is_first } => self.flow_sequence(is_first),
            State::FlowKey { is_first } => self.flow_key(is_first),
            State::FlowValue => self.flow_value(),
            State::FlowValueMissing => self.empty(State::FlowKey { is_first: false }),
            State::PairKey => self.pair_key(),
            State::PairValue => self.pair_value(),
            State::PairEnd => self.pair_end(),
            State::StreamStart => self.stream_start(),
            State::DocumentContent => self.document_content(),
            State::DocumentNode => self.node(node::Context::Block),
            State::DocumentEnd => self.document_end(),
            State::StreamEnd => self.event(EventKind::StreamEnd),
        }
    }

    /// The next token, which is not consumed.
    #[inline]
    fn peek(&mut self) -> Result<Token, Error> {
        self.scanner.peek()
    }

    /// Continues with the state before the current node.
    #[inline]
    fn resume(&mut self) {
        self.state = self.states.pop().unwrap_or(State::StreamEnd);
    }

    /// An empty scalar, where the document leaves a node out. `next` is the
    /// state after it.
    fn empty(&mut self, next: State) -> Result<Event, Error> {
        self.state = next;
        self.event(EventKind::Scalar(Scalar::EMPTY))
    }

    /// An event of length 0 at the next token.
    fn event(&mut self, kind: EventKind) -> Result<Event, Error> {
        let place = self.peek()?.place;
        Ok(Event::new(kind, place, place.offset()))
    }

    /// An event of the next token, which is consumed.
    fn taken(&mut self, kind: EventKind, token: Token) -> Event {
        self.scanner.skip();
        Event::new(kind, token.place, token.end())
    }

    fn unexpected<T>(expected: &str, place: Place) -> Result<T, Error> {
        Err(Error::parser(&format!("did not find expected {expected}"), place))
    }

    /// The next node. An empty scalar if the next token `ends` the enclosing
    /// rule.
    fn node_or_empty(
        &mut self,
        context: node::Context,
        next: State,
        ends: impl Fn(TokenKind) -> bool,
    ) -> Result<Event, Error> {
        let token = self.peek()?;
        if ends(token.kind) {
            return self.empty(next);
        }
        // Most nodes are scalars, which end at once.
        if let TokenKind::Scalar(style) = token.kind {
            self.state = next;
            return Ok(self.taken(node::scalar(token.text, None, style), token));
        }
        self.states.push(next);
        self.node_from(token, context)
    }
}
