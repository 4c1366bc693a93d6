//! Nodes and their properties (anchor and tag).

use super::{Parser, State};
use crate::{
    error::Error,
    event::{Event, EventKind, Scalar, Tag},
    offset::Offset,
    place::Place,
    token::{Style, Text, Token, TokenKind},
};

/// The collections that are allowed at this point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Context {
    Flow,
    Block,
    /// Block collections, and a sequence in the same column as the enclosing
    /// mapping.
    BlockOrIndentless,
}

/// The anchor and tag of a node.
#[derive(Debug)]
struct Properties {
    anchor: Option<Text>,
    tag: Option<Result<Tag, Error>>,
    place: Place,
}

impl Parser<'_> {
    pub(super) fn node(&mut self, context: Context) -> Result<Event, Error> {
        let token = self.peek()?;
        self.node_from(token, context)
    }

    /// The node that starts with the next token, `token`.
    pub(super) fn node_from(&mut self, token: Token, context: Context) -> Result<Event, Error> {
        match token.kind {
            TokenKind::Scalar(style) => {
                self.resume();
                Ok(self.taken(scalar(token.text, None, style), token))
            }
            TokenKind::Alias => {
                self.resume();
                Ok(self.taken(EventKind::Alias(token.text), token))
            }
            TokenKind::Anchor | TokenKind::Tag { .. } => {
                let Properties { anchor, tag, place } = self.properties()?;
                let tag = tag.transpose()?;
                let token = self.peek()?;
                let mut event = self.content(token, context, Some((tag, place)))?;
                event.anchor = anchor;
                Ok(event)
            }
            _ => self.content(token, context, None),
        }
    }

    /// Reads an anchor, a tag, or both in any order. An undeclared tag handle
    /// is reported only after the next token, as in go-yaml.
    fn properties(&mut self) -> Result<Properties, Error> {
        let place = self.peek()?.place;
        let mut properties = Properties { anchor: None, tag: None, place };
        loop {
            let token = self.peek()?;
            match token.kind {
                TokenKind::Anchor if properties.anchor.is_none() => {
                    properties.anchor = Some(token.text);
                }
                TokenKind::Tag { handle } if properties.tag.is_none() => {
                    properties.tag = Some(self.resolve_tag(token, handle));
                }
                _ => return Ok(properties),
            }
            self.scanner.skip();
        }
    }

    fn resolve_tag(&self, token: Token, handle: Offset) -> Result<Tag, Error> {
        let (handle, suffix) = self.scanner.text(token.text).split_at(handle.get());
        match self.directives.resolve(handle) {
            Some(prefix) => Ok(Tag::from_parts(prefix, suffix)),
            None => Err(Error::parser("found undefined tag handle", token.place)),
        }
    }

    /// The node after its properties. `properties` has their tag and place.
    fn content(
        &mut self,
        token: Token,
        context: Context,
        properties: Option<(Option<Tag>, Place)>,
    ) -> Result<Event, Error> {
        let tag = properties.and_then(|(tag, _)| tag);
        let is_block = context != Context::Flow;
        match token.kind {
            TokenKind::Scalar(style) => {
                self.resume();
                Ok(self.taken(scalar(token.text, tag, style), token))
            }
            TokenKind::BlockEntry if context == Context::BlockOrIndentless => {
                self.state = State::IndentlessSequence;
                self.event(EventKind::SequenceStart)
            }
            TokenKind::FlowSequenceStart => Ok(self.open(
                EventKind::SequenceStart,
                State::FlowSequence { is_first: true },
                token,
            )),
            TokenKind::FlowMappingStart => {
                Ok(self.open(EventKind::MappingStart, State::FlowKey { is_first: true }, token))
            }
            TokenKind::BlockSequenceStart if is_block => {
                Ok(self.open(EventKind::SequenceStart, State::BlockSequence, token))
            }
            TokenKind::BlockMappingStart if is_block => {
                Ok(self.open(EventKind::MappingStart, State::BlockKey, token))
            }
            _ => {
                let Some((_, place)) = properties else {
                    return Self::unexpected("node content", token.place);
                };
                self.resume();
                let kind = scalar(Text::EMPTY, tag, Style::Plain);
                Ok(Event::new(kind, place, token.place.offset()))
            }
        }
    }

    fn open(&mut self, kind: EventKind, state: State, token: Token) -> Event {
        self.state = state;
        self.taken(kind, token)
    }
}

pub(super) fn scalar(text: Text, tag: Option<Tag>, style: Style) -> EventKind {
    EventKind::Scalar(Scalar { text, tag: tag.unwrap_or(Tag::None), style })
}
