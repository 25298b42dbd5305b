//! What may follow what within a clause: speculations, commits, data-recording and destructive actions.

use crate::error::{Checked, Fault};
use crate::span::Span;
use crate::tag::Tag;

/// What a statement is for these rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effect {
    Recording,
    Aggregating,
    Destructive,
    Exit,
    Speculate,
    Commit,
    Discard,
}

/// What a clause has done so far.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ClauseRules {
    recorded: bool,
    aggregated: bool,
    speculates: bool,
    committed: bool,
}

impl ClauseRules {
    /// Notes a statement, or refuses it after what was before.
    pub fn note(&mut self, effect: Effect, span: Span) -> Checked<()> {
        if let Some((tag, message)) = self.broken(effect) {
            return Err(Fault::new(tag, span, message));
        }
        match effect {
            Effect::Recording => self.recorded = true,
            Effect::Aggregating => self.aggregated = true,
            Effect::Speculate => self.speculates = true,
            Effect::Commit => self.committed = true,
            Effect::Destructive | Effect::Exit | Effect::Discard => {}
        }
        Ok(())
    }

    fn broken(self, effect: Effect) -> Option<(Tag, &'static str)> {
        Some(match effect {
            Effect::Recording if self.committed => (
                Tag::DrecComm,
                "data-recording actions may not follow commit( )",
            ),
            Effect::Aggregating if self.committed => {
                (Tag::AggComm, "aggregating actions may not follow commit( )")
            }
            Effect::Aggregating if self.speculates => (
                Tag::AggSpec,
                "aggregating actions may not follow speculate( )",
            ),
            Effect::Destructive if self.speculates => (
                Tag::ActSpec,
                "destructive actions may not follow speculate( )",
            ),
            Effect::Exit if self.speculates => {
                (Tag::ExitSpec, "exit( ) may not follow speculate( )")
            }
            Effect::Speculate if self.speculates => {
                (Tag::SpecSpec, "speculate( ) may not follow speculate( )")
            }
            Effect::Speculate if self.committed => {
                (Tag::SpecComm, "speculate( ) may not follow commit( )")
            }
            Effect::Speculate if self.recorded || self.aggregated => (
                Tag::SpecDrec,
                "speculate( ) may not follow data-recording action(s)",
            ),
            Effect::Commit if self.recorded || self.aggregated => (
                Tag::CommDrec,
                "commit( ) may not follow data-recording action(s)",
            ),
            _ => return None,
        })
    }
}
