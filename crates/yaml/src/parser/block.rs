//! Collections by indentation.

use super::{Parser, State, node::Context};
use crate::{
    error::Error,
    event::{Event, Kind},
    token,
};

impl Parser<'_> {
    pub(super) fn block_sequence(&mut self) -> Result<Event, Error> {
        let token = self.peek()?;
        match token.kind {
            token::Kind::BlockEntry => {
                self.scanner.skip();
                let next = State::BlockSequence;
                self.node_or_empty(Context::Block, next, |kind| {
                    matches!(kind, token::Kind::BlockEntry | token::Kind::BlockEnd)
                })
            }
            token::Kind::BlockEnd => {
                self.resume();
                Ok(self.taken(Kind::SequenceEnd, token))
            }
            _ => Self::unexpected("'-' indicator", token.place),
        }
    }

    pub(super) fn indentless_sequence(&mut self) -> Result<Event, Error> {
        let token = self.peek()?;
        if token.kind != token::Kind::BlockEntry {
            self.resume();
            return self.event(Kind::SequenceEnd);
        }
        self.scanner.skip();
        self.node_or_empty(Context::Block, State::IndentlessSequence, |kind| {
            kind == token::Kind::BlockEntry || ends_entry(kind)
        })
    }

    pub(super) fn block_key(&mut self) -> Result<Event, Error> {
        let token = self.peek()?;
        match token.kind {
            token::Kind::Key => {
                self.scanner.skip();
                self.node_or_empty(Context::BlockOrIndentless, State::BlockValue, ends_entry)
            }
            token::Kind::BlockEnd => {
                self.resume();
                Ok(self.taken(Kind::MappingEnd, token))
            }
            _ => Self::unexpected("key", token.place),
        }
    }

    pub(super) fn block_value(&mut self) -> Result<Event, Error> {
        let next = State::BlockKey;
        if self.peek()?.kind != token::Kind::Value {
            return self.empty(next);
        }
        self.scanner.skip();
        self.node_or_empty(Context::BlockOrIndentless, next, ends_entry)
    }
}

fn ends_entry(kind: token::Kind) -> bool {
    matches!(kind, token::Kind::Key | token::Kind::Value | token::Kind::BlockEnd)
}
