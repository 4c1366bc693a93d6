//! Collections in brackets.

use super::{MAX_DEPTH, Scanner};
use crate::{error::Error, token::Kind};

impl Scanner<'_> {
    /// `[` or `{`
    pub(super) fn open_flow(&mut self, kind: Kind) -> Result<(), Error> {
        self.expect_key()?;
        self.keys.open(self.queue.next_number());
        self.flow_depth += 1;
        if self.flow_depth > MAX_DEPTH {
            return Err(self.too_deep());
        }
        self.is_key_allowed = true;
        self.indicator(kind, 1);
        Ok(())
    }

    /// `]` or `}`; whether one was open, the parser finds out.
    pub(super) fn close_flow(&mut self, kind: Kind) -> Result<(), Error> {
        self.forget_key()?;
        self.keys.close();
        self.flow_depth = self.flow_depth.saturating_sub(1);
        self.is_key_allowed = false;
        self.indicator(kind, 1);
        Ok(())
    }

    /// `,`
    pub(super) fn flow_entry(&mut self) -> Result<(), Error> {
        self.forget_key()?;
        self.is_key_allowed = true;
        self.indicator(Kind::FlowEntry, 1);
        Ok(())
    }
}
