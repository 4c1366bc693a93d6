//! The queue of tokens between scanner and parser.

use super::Token;

/// Number of consumed tokens that are kept before the queue is compacted. It is
/// larger than any key, so the queue normally becomes empty first.
const MAX_TAKEN: usize = 4096;

/// Tokens that are scanned but not consumed. The queue normally becomes empty
/// before the next token is scanned, so the memory is reused from its start.
#[derive(Debug, Default)]
pub(super) struct Queue {
    tokens: Vec<Token>,
    /// Number of consumed tokens in `tokens`.
    taken: usize,
    /// Number of tokens that were removed from `tokens`.
    before: usize,
}

impl Queue {
    /// Empties the queue, which keeps its memory.
    pub(super) fn clear(&mut self) {
        self.tokens.clear();
        (self.taken, self.before) = (0, 0);
    }

    /// The next token.
    #[inline]
    pub(super) fn first(&self) -> Option<Token> {
        self.tokens.get(self.taken).copied()
    }

    /// Consumes the next token.
    #[inline]
    pub(super) fn take(&mut self) {
        if self.taken < self.tokens.len() {
            self.taken += 1;
        }
        if self.taken == self.tokens.len() || self.taken > MAX_TAKEN {
            self.before += self.taken;
            self.tokens.drain(..self.taken);
            self.taken = 0;
        }
    }

    /// Appends a token.
    #[inline]
    pub(super) fn push(&mut self, token: Token) {
        self.tokens.push(token);
    }

    /// Number of the next token, counted from the start of the document.
    #[inline]
    pub(super) fn first_number(&self) -> usize {
        self.before + self.taken
    }

    /// Number that the next pushed token gets.
    #[inline]
    pub(super) fn next_number(&self) -> usize {
        self.before + self.tokens.len()
    }

    /// Inserts a token before the one with this number. If that one is
    /// consumed, appends it.
    pub(super) fn insert(&mut self, number: usize, token: Token) {
        if number < self.first_number() {
            self.push(token);
        } else {
            self.tokens.insert(number - self.before, token);
        }
    }
}
