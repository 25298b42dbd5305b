//! Names for frames while the recording goes on.
use crate::naming;
use crate::spinning::Leaves;
use dwell_collector::{Origin, Unnamed};
use dwell_recording::rows::SymbolRow;
use dwell_symbols::Symbolizer;
use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, Sender, channel};

/// Frames that want a name, and the stacks that threads ran at.
type Asked = (Vec<Unnamed>, Leaves);

/// What was found out about frames.
pub struct Named {
    pub symbols: Vec<SymbolRow>,
    /// Whether a thread that runs there only waits.
    pub spinning: BTreeMap<u32, bool>,
}

/// Looks for names in a thread of its own: that can take seconds, in which the recorder has to go on.
pub struct Namer {
    requests: Sender<Asked>,
    answers: Receiver<Named>,
    /// It is at work.
    pub busy: bool,
}

impl Namer {
    pub fn start() -> Self {
        let (requests, asked) = channel::<Asked>();
        let (found, answers) = channel();
        std::thread::spawn(move || {
            let mut symbolizer = naming::symbolizer();
            // What helps to wait there is judged by its callers, which may have been named before.
            let mut of_kernel = Vec::new();
            for (groups, leaves) in asked {
                let named = name(&mut symbolizer, &mut of_kernel, &groups, leaves);
                if found.send(named).is_err() {
                    break; // nobody waits for it any more
                }
            }
        });
        Namer {
            requests,
            answers,
            busy: false,
        }
    }

    pub fn ask(&mut self, groups: Vec<Unnamed>, leaves: Leaves) {
        self.busy = self.requests.send((groups, leaves)).is_ok();
    }

    pub fn answer(&mut self) -> Option<Named> {
        let named = self.answers.try_recv().ok()?;
        self.busy = false;
        Some(named)
    }
}

/// Names frames and judges those of them that threads ran at. `of_kernel` are the kernel's names so far.
fn name(
    symbolizer: &mut Symbolizer,
    of_kernel: &mut Vec<SymbolRow>,
    groups: &[Unnamed],
    mut leaves: Leaves,
) -> Named {
    let mut symbols = Vec::new();
    for group in groups {
        let names = naming::name_group(symbolizer, group);
        if matches!(group.origin, Origin::Kernel) {
            of_kernel.extend(names.iter().cloned());
            leaves.judge(symbolizer, group, of_kernel);
        } else {
            leaves.judge(symbolizer, group, &names);
        }
        symbols.extend(names);
    }
    Named {
        symbols,
        spinning: leaves.spinning().clone(),
    }
}
