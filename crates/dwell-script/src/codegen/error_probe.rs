//! The probe ERROR: its clauses run where a clause of another probe ends with a fault, within that probe's program.
use super::error::CodeError;
use super::program::Maker;
use super::site::Site;
use dwell_abi::program::instruction::Alu;

impl Maker<'_, '_> {
    /// Runs the clauses of ERROR. What goes wrong in them is only counted.
    pub(super) fn error_clauses(&mut self) -> Result<(), CodeError> {
        let (number, clauses) = self.generator.errors.clone();
        if clauses.is_empty() {
            return Ok(());
        }
        let mark = self.frame.mark();
        let outer = (self.site, self.failure, self.clause);
        let probe = self.frame.temporary()?;
        self.store_word(probe, 7);
        self.failed = Some((self.clause, self.failure));
        self.failure.address = self.frame.temporary()?;
        self.failure.kind = self.frame.temporary()?;
        self.site = Site::Error;
        self.code.constant(7, i64::from(number));
        for clause in clauses {
            self.clause(clause)?;
        }
        (self.site, self.failure, self.clause) = outer;
        self.load_word(7, probe);
        self.frame.release(mark);
        Ok(())
    }

    /// Whether a clause of ERROR may stop the script.
    pub(super) fn errors_stop(&self) -> bool {
        self.generator
            .errors
            .1
            .iter()
            .any(|clause| self.stops(*clause))
    }

    /// ERROR's `argN` into register 0: the enabled probe, the action, the place in it (which we do not tell), the
    /// fault's number, the address.
    pub(super) fn error_argument(&mut self, n: usize) {
        let (clause, failure) = self.failed.expect("ERROR only fires after a failure");
        match n {
            1 => self.code.constant(0, clause as i64 + 1),
            2 => {
                self.load_word(0, failure.kind);
                self.code.alu_imm(Alu::Rsh, 0, 16);
            }
            4 => {
                self.load_word(0, failure.kind);
                self.cut(0, 2, false);
            }
            5 => self.load_word(0, failure.address),
            _ => self.code.constant(0, 0),
        }
    }
}
