//! Nodes and what stands before them.

use super::{Parser, State};
use crate::{
    error::Error,
    event::{Event, Kind, Scalar, Tag},
    offset::Offset,
    place::Place,
    token::{self, Style, Text, Token},
};

/// Which collections may start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Context {
    Flow,
    Block,
    /// Also a sequence in the column of the mapping around it.
    BlockOrIndentless,
}

/// What stands before a node.
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

    /// The node that starts with this token, which is the next.
    pub(super) fn node_from(&mut self, token: Token, context: Context) -> Result<Event, Error> {
        match token.kind {
            token::Kind::Scalar(style) => {
                self.resume();
                Ok(self.taken(scalar(token.text, None, style), token))
            }
            token::Kind::Alias => {
                self.resume();
                Ok(self.taken(Kind::Alias(token.text), token))
            }
            token::Kind::Anchor | token::Kind::Tag { .. } => {
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

    /// An anchor, a tag, or both in any order. Whether the tag is known only
    /// matters once the next token is.
    fn properties(&mut self) -> Result<Properties, Error> {
        let place = self.peek()?.place;
        let mut properties = Properties { anchor: None, tag: None, place };
        loop {
            let token = self.peek()?;
            match token.kind {
                token::Kind::Anchor if properties.anchor.is_none() => {
                    properties.anchor = Some(token.text);
                }
                token::Kind::Tag { handle } if properties.tag.is_none() => {
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

    /// What follows the properties, of which these are the tag and the place.
    fn content(
        &mut self,
        token: Token,
        context: Context,
        properties: Option<(Option<Tag>, Place)>,
    ) -> Result<Event, Error> {
        let tag = properties.and_then(|(tag, _)| tag);
        let is_block = context != Context::Flow;
        match token.kind {
            token::Kind::Scalar(style) => {
                self.resume();
                Ok(self.taken(scalar(token.text, tag, style), token))
            }
            token::Kind::BlockEntry if context == Context::BlockOrIndentless => {
                self.state = State::IndentlessSequence;
                self.event(Kind::SequenceStart)
            }
            token::Kind::FlowSequenceStart => {
                Ok(self.open(Kind::SequenceStart, State::FlowSequence { is_first: true }, token))
            }
            token::Kind::FlowMappingStart => {
                Ok(self.open(Kind::MappingStart, State::FlowKey { is_first: true }, token))
            }
            token::Kind::BlockSequenceStart if is_block => {
                Ok(self.open(Kind::SequenceStart, State::BlockSequence, token))
            }
            token::Kind::BlockMappingStart if is_block => {
                Ok(self.open(Kind::MappingStart, State::BlockKey, token))
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

    fn open(&mut self, kind: Kind, state: State, token: Token) -> Event {
        self.state = state;
        self.taken(kind, token)
    }
}

fn scalar(text: Text, tag: Option<Tag>, style: Style) -> Kind {
    Kind::Scalar(Scalar { text, tag: tag.unwrap_or(Tag::None), style })
}
