//! Tokens on their way to the parser.

use super::Token;

/// How many tokens that were taken may wait for the others to be. More than a
/// key can have, so the queue runs empty long before.
const MAX_TAKEN: usize = 4096;

/// Tokens that were scanned and not yet taken. Most often it runs empty
/// before the next is scanned, so its memory is simply used from the start
/// again.
#[derive(Debug, Default)]
pub(super) struct Queue {
    tokens: Vec<Token>,
    /// How many of them were taken.
    taken: usize,
    /// How many were taken before them.
    before: usize,
}

impl Queue {
    /// The next token.
    #[inline]
    pub(super) fn first(&self) -> Option<Token> {
        self.tokens.get(self.taken).copied()
    }

    /// Takes the next token.
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

    /// Adds a token behind all others.
    #[inline]
    pub(super) fn push(&mut self, token: Token) {
        self.tokens.push(token);
    }

    /// Number of the next token, counted from the document's first.
    #[inline]
    pub(super) fn first_number(&self) -> usize {
        self.before + self.taken
    }

    /// Number of the token that is pushed next.
    #[inline]
    pub(super) fn next_number(&self) -> usize {
        self.before + self.tokens.len()
    }

    /// Adds a token before the one of this number, or last if that one was
    /// taken.
    pub(super) fn insert(&mut self, number: usize, token: Token) {
        if number < self.first_number() {
            self.push(token);
        } else {
            self.tokens.insert(number - self.before, token);
        }
    }
}
