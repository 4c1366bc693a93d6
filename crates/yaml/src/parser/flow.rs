//! Collections in brackets.

use super::{Parser, State, node::Context};
use crate::{
    error::Error,
    event::{Event, Kind},
    token,
};

impl Parser<'_> {
    pub(super) fn flow_sequence(&mut self, is_first: bool) -> Result<Event, Error> {
        if !is_first && self.peek()?.kind != token::Kind::FlowSequenceEnd {
            self.flow_comma("',' or ']'")?;
        }
        let token = self.peek()?;
        match token.kind {
            token::Kind::FlowSequenceEnd => {
                self.resume();
                Ok(self.taken(Kind::SequenceEnd, token))
            }
            token::Kind::Key => {
                self.state = State::PairKey;
                Ok(self.taken(Kind::MappingStart, token))
            }
            _ => {
                self.states.push(State::FlowSequence { is_first: false });
                self.node(Context::Flow)
            }
        }
    }

    pub(super) fn pair_key(&mut self) -> Result<Event, Error> {
        let token = self.peek()?;
        if ends_pair(token.kind) || token.kind == token::Kind::Value {
            // Upstream loses the token that shows that there is no key.
            self.state = State::PairValue;
            let event = self.event(Kind::Scalar(crate::event::Scalar::EMPTY));
            self.scanner.skip();
            return event;
        }
        self.states.push(State::PairValue);
        self.node(Context::Flow)
    }

    pub(super) fn pair_value(&mut self) -> Result<Event, Error> {
        if self.peek()?.kind != token::Kind::Value {
            return self.empty(State::PairEnd);
        }
        self.scanner.skip();
        self.node_or_empty(Context::Flow, State::PairEnd, ends_pair)
    }

    pub(super) fn pair_end(&mut self) -> Result<Event, Error> {
        self.state = State::FlowSequence { is_first: false };
        self.event(Kind::MappingEnd)
    }

    pub(super) fn flow_key(&mut self, is_first: bool) -> Result<Event, Error> {
        if !is_first && self.peek()?.kind != token::Kind::FlowMappingEnd {
            self.flow_comma("',' or '}'")?;
        }
        let token = self.peek()?;
        match token.kind {
            token::Kind::FlowMappingEnd => {
                self.resume();
                Ok(self.taken(Kind::MappingEnd, token))
            }
            token::Kind::Key => {
                self.scanner.skip();
                self.node_or_empty(Context::Flow, State::FlowValue, |kind| {
                    ends_value(kind) || kind == token::Kind::Value
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
        if self.peek()?.kind != token::Kind::Value {
            return self.empty(next);
        }
        self.scanner.skip();
        self.node_or_empty(Context::Flow, next, ends_value)
    }

    fn flow_comma(&mut self, expected: &str) -> Result<(), Error> {
        let token = self.peek()?;
        if token.kind != token::Kind::FlowEntry {
            return Self::unexpected(expected, token.place);
        }
        self.scanner.skip();
        Ok(())
    }
}

fn ends_pair(kind: token::Kind) -> bool {
    matches!(kind, token::Kind::FlowEntry | token::Kind::FlowSequenceEnd)
}

fn ends_value(kind: token::Kind) -> bool {
    matches!(kind, token::Kind::FlowEntry | token::Kind::FlowMappingEnd)
}
