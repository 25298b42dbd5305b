//! A recording into thread states, weighted stacks and wakers
