//! Where a document starts and ends.

use super::{Parser, State, node::Context};
use crate::{
    error::Error,
    event::{Event, Kind},
    token,
};

impl Parser<'_> {
    pub(super) fn stream_start(&mut self) -> Result<Event, Error> {
        let token = self.peek()?;
        match token.kind {
            token::Kind::StreamEnd => {
                self.state = State::StreamEnd;
                self.event(Kind::StreamEnd)
            }
            token::Kind::VersionDirective { .. }
            | token::Kind::TagDirective { .. }
            | token::Kind::DocumentStart => self.explicit_document(),
            _ => {
                self.states.push(State::DocumentEnd);
                self.state = State::DocumentNode;
                self.event(Kind::DocumentStart)
            }
        }
    }

    fn explicit_document(&mut self) -> Result<Event, Error> {
        loop {
            let token = self.peek()?;
            match token.kind {
                token::Kind::VersionDirective { is_supported } => {
                    self.directives.set_version(is_supported, token.place)?;
                }
                token::Kind::TagDirective { handle } => {
                    let text = self.scanner.text(token.text);
                    self.directives.add_tag(text.split_at(handle.get()), token.place)?;
                }
                token::Kind::DocumentStart => {
                    self.states.push(State::DocumentEnd);
                    self.state = State::DocumentContent;
                    return Ok(self.taken(Kind::DocumentStart, token));
                }
                _ => return Self::unexpected("<document start>", token.place),
            }
            self.scanner.skip();
        }
    }

    pub(super) fn document_content(&mut self) -> Result<Event, Error> {
        let token = self.peek()?;
        match token.kind {
            token::Kind::VersionDirective { .. }
            | token::Kind::TagDirective { .. }
            | token::Kind::DocumentStart
            | token::Kind::DocumentEnd
            | token::Kind::StreamEnd => {
                let next = self.states.pop().unwrap_or(State::StreamEnd);
                self.empty(next)
            }
            _ => self.node(Context::Block),
        }
    }

    /// Whatever stands behind the document is never read.
    pub(super) fn document_end(&mut self) -> Result<Event, Error> {
        self.state = State::StreamEnd;
        self.event(Kind::DocumentEnd)
    }
}
