//! The start and end of the document.

use super::{Parser, State, node::Context};
use crate::{
    error::Error,
    event::{Event, EventKind},
    token::TokenKind,
};

impl Parser<'_> {
    pub(super) fn stream_start(&mut self) -> Result<Event, Error> {
        let token = self.peek()?;
        match token.kind {
            TokenKind::StreamEnd => {
                self.state = State::StreamEnd;
                self.event(EventKind::StreamEnd)
            }
            TokenKind::VersionDirective { .. }
            | TokenKind::TagDirective { .. }
            | TokenKind::DocumentStart => self.explicit_document(),
            _ => {
                self.states.push(State::DocumentEnd);
                self.state = State::DocumentNode;
                self.event(EventKind::DocumentStart)
            }
        }
    }

    fn explicit_document(&mut self) -> Result<Event, Error> {
        loop {
            let token = self.peek()?;
            match token.kind {
                TokenKind::VersionDirective { is_supported } => {
                    self.directives.set_version(is_supported, token.place)?;
                }
                TokenKind::TagDirective { handle } => {
                    let text = self.scanner.text(token.text);
                    self.directives.add_tag(text.split_at(handle.get()), token.place)?;
                }
                TokenKind::DocumentStart => {
                    self.states.push(State::DocumentEnd);
                    self.state = State::DocumentContent;
                    return Ok(self.taken(EventKind::DocumentStart, token));
                }
                _ => return Self::unexpected("<document start>", token.place),
            }
            self.scanner.skip();
        }
    }

    pub(super) fn document_content(&mut self) -> Result<Event, Error> {
        let token = self.peek()?;
        match token.kind {
            TokenKind::VersionDirective { .. }
            | TokenKind::TagDirective { .. }
            | TokenKind::DocumentStart
            | TokenKind::DocumentEnd
            | TokenKind::StreamEnd => {
                let next = self.states.pop().unwrap_or(State::StreamEnd);
                self.empty(next)
            }
            _ => self.node(Context::Block),
        }
    }

    /// Ends the document. Text after it is never read.
    pub(super) fn document_end(&mut self) -> Result<Event, Error> {
        self.state = State::StreamEnd;
        self.event(EventKind::DocumentEnd)
    }
}
