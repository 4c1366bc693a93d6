//! Block collections, which depend on indentation.

use super::{Parser, State, node::Context};
use crate::{
    error::Error,
    event::{Event, EventKind},
    token::TokenKind,
};

impl Parser<'_> {
    pub(super) fn block_sequence(&mut self) -> Result<Event, Error> {
        let token = self.peek()?;
        match token.kind {
            TokenKind::BlockEntry => {
                self.scanner.skip();
                let next = State::BlockSequence;
                self.node_or_empty(Context::Block, next, |kind| {
                    matches!(kind, TokenKind::BlockEntry | TokenKind::BlockEnd)
                })
            }
            TokenKind::BlockEnd => {
                self.resume();
                Ok(self.taken(EventKind::SequenceEnd, token))
            }
            _ => Self::unexpected("'-' indicator", token.place),
        }
    }

    pub(super) fn indentless_sequence(&mut self) -> Result<Event, Error> {
        let token = self.peek()?;
        if token.kind != TokenKind::BlockEntry {
            self.resume();
            return self.event(EventKind::SequenceEnd);
        }
        self.scanner.skip();
        self.node_or_empty(Context::Block, State::IndentlessSequence, |kind| {
            kind == TokenKind::BlockEntry || ends_entry(kind)
        })
    }

    pub(super) fn block_key(&mut self) -> Result<Event, Error> {
        let token = self.peek()?;
        match token.kind {
            TokenKind::Key => {
                self.scanner.skip();
                self.node_or_empty(Context::BlockOrIndentless, State::BlockValue, ends_entry)
            }
            TokenKind::BlockEnd => {
                self.resume();
                Ok(self.taken(EventKind::MappingEnd, token))
            }
            _ => Self::unexpected("key", token.place),
        }
    }

    pub(super) fn block_value(&mut self) -> Result<Event, Error> {
        let next = State::BlockKey;
        if self.peek()?.kind != TokenKind::Value {
            return self.empty(next);
        }
        self.scanner.skip();
        self.node_or_empty(Context::BlockOrIndentless, next, ends_entry)
    }
}

fn ends_entry(kind: TokenKind) -> bool {
    matches!(kind, TokenKind::Key | TokenKind::Value | TokenKind::BlockEnd)
}
