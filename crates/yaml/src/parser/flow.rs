//! Flow collections: `[…]` and `{…}`.

use super::{Parser, State, node::Context};
use crate::{
    error::Error,
    event::{Event, EventKind},
    token::TokenKind,
};

impl Parser<'_> {
    pub(super) fn flow_sequence(&mut self, is_first: bool) -> Result<Event, Error> {
        if !is_first && self.peek()?.kind != TokenKind::FlowSequenceEnd {
            self.flow_comma("',' or ']'")?;
        }
        let token = self.peek()?;
        match token.kind {
            TokenKind::FlowSequenceEnd => {
                self.resume();
                Ok(self.taken(EventKind::SequenceEnd, token))
            }
            TokenKind::Key => {
                self.state = State::PairKey;
                Ok(self.taken(EventKind::MappingStart, token))
            }
            _ => {
                self.states.push(State::FlowSequence { is_first: false });
                self.node(Context::Flow)
            }
        }
    }

    pub(super) fn pair_key(&mut self) -> Result<Event, Error> {
        let token = self.peek()?;
        if ends_pair(token.kind) || token.kind == TokenKind::Value {
            // go-yaml drops the token that shows that the key is missing, and
            // so must we.
            self.state = State::PairValue;
            let event = self.event(EventKind::Scalar(crate::event::Scalar::EMPTY));
            self.scanner.skip();
            return event;
        }
        self.states.push(State::PairValue);
        self.node(Context::Flow)
    }

    pub(super) fn pair_value(&mut self) -> Result<Event, Error> {
        if self.peek()?.kind != TokenKind::Value {
            return self.empty(State::PairEnd);
        }
        self.scanner.skip();
        self.node_or_empty(Context::Flow, State::PairEnd, ends_pair)
    }

    pub(super) fn pair_end(&mut self) -> Result<Event, Error> {
        self.state = State::FlowSequence { is_first: false };
        self.event(EventKind::MappingEnd)
    }

    pub(super) fn flow_key(&mut self, is_first: bool) -> Result<Event, Error> {
        if !is_first && self.peek()?.kind != TokenKind::FlowMappingEnd {
            self.flow_comma("',' or '}'")?;
        }
        let token = self.peek()?;
        match token.kind {
            TokenKind::FlowMappingEnd => {
                self.resume();
                Ok(self.taken(EventKind::MappingEnd, token))
            }
            TokenKind::Key => {
                self.scanner.skip();
                self.node_or_empty(Context::Flow, State::FlowValue, |kind| {
                    ends_value(kind) || kind == TokenKind::Value
                })
            }
            _ => {
                self.states.push(State::FlowValueMissing);
                self.node(Context::Flow)
            }
        }
    }

    pub(super) fn flow_value(&mut self) -> Result<Event, Error> {
        let next = State::FlowKey { is_first: false };
        if self.peek()?.kind != TokenKind::Value {
            return self.empty(next);
        }
        self.scanner.skip();
        self.node_or_empty(Context::Flow, next, ends_value)
    }

    fn flow_comma(&mut self, expected: &str) -> Result<(), Error> {
        let token = self.peek()?;
        if token.kind != TokenKind::FlowEntry {
            return Self::unexpected(expected, token.place);
        }
        self.scanner.skip();
        Ok(())
    }
}

fn ends_pair(kind: TokenKind) -> bool {
    matches!(kind, TokenKind::FlowEntry | TokenKind::FlowSequenceEnd)
}

fn ends_value(kind: TokenKind) -> bool {
    matches!(kind, TokenKind::FlowEntry | TokenKind::FlowMappingEnd)
}
