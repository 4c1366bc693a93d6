//! From tokens to the nodes of the first document.

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
    event::{Event, Kind, Scalar},
    place::Place,
    reader::Source,
    scanner::Scanner,
    token::{self, Text, Token},
};

/// What may stand next.
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
    /// A mapping of one entry within brackets: `[a: b]`
    PairKey,
    PairValue,
    PairEnd,
    FlowKey {
        is_first: bool,
    },
    FlowValue,
    /// A key without `:`
    FlowValueMissing,
}

/// Reads events off the tokens of a document. Depth costs memory, not stack.
#[derive(Debug)]
pub(super) struct Parser<'a> {
    scanner: Scanner<'a>,
    state: State,
    /// What goes on when the node at hand is done.
    states: Vec<State>,
    directives: Directives,
}

impl<'a> Parser<'a> {
    /// A parser at the start of a document.
    pub(super) fn new(source: &'a Source<'_>) -> Self {
        Self {
            scanner: Scanner::new(source),
            state: State::StreamStart,
            states: Vec::new(),
            directives: Directives::default(),
        }
    }

    /// The characters of an event, which stay until the next event.
    #[inline]
    pub(super) fn text(&self, text: Text) -> &[u8] {
        self.scanner.text(text)
    }

    /// The next event. Nothing is read behind the first document's end.
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
            State::StreamEnd => self.event(Kind::StreamEnd),
        }
    }

    /// The next token's kind and place.
    #[inline]
    fn peek(&mut self) -> Result<Token, Error> {
        self.scanner.peek()
    }

    /// Goes on with what was put off.
    #[inline]
    fn resume(&mut self) {
        self.state = self.states.pop().unwrap_or(State::StreamEnd);
    }

    /// A null that nobody wrote; `next` goes on.
    fn empty(&mut self, next: State) -> Result<Event, Error> {
        self.state = next;
        self.event(Kind::Scalar(Scalar::EMPTY))
    }

    /// An event without characters, at the next token.
    fn event(&mut self, kind: Kind) -> Result<Event, Error> {
        let place = self.peek()?.place;
        Ok(Event::new(kind, place, place.offset()))
    }

    /// An event of the next token, which is taken.
    fn taken(&mut self, kind: Kind, token: Token) -> Event {
        self.scanner.skip();
        Event::new(kind, token.place, token.end())
    }

    fn unexpected<T>(expected: &str, place: Place) -> Result<T, Error> {
        Err(Error::parser(&format!("did not find expected {expected}"), place))
    }

    /// The event of a node, unless a token says that there is none.
    fn node_or_empty(
        &mut self,
        context: node::Context,
        next: State,
        ends: impl Fn(token::Kind) -> bool,
    ) -> Result<Event, Error> {
        let token = self.peek()?;
        if ends(token.kind) {
            return self.empty(next);
        }
        self.states.push(next);
        self.node_from(token, context)
    }
}
