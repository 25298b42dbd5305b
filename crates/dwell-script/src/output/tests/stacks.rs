//! Stacks and addresses.

use super::*;
use crate::schema::AddressPart;

fn kernel(data: &mut Data) -> Field {
    data.words(
        &[0xffff_0134, 0xffff_0000, 0xffff_0ff0, 0x10, 0, 0],
        FieldKind::KernelStack,
    )
}

/// A stack of process 9, with room for strings.
fn user(data: &mut Data) -> Field {
    let words = [9, 0x40_0110, 0x40_0000, 0x40_0555, 0x1234, 0, 7];
    data.words(&words, FieldKind::UserStack { strings: 8 })
}

fn printed(run: &mut Run, action: impl FnOnce(&mut Data) -> ActionKind) -> String {
    let mut data = Data::default();
    let action = action(&mut data);
    run.once(vec![action], data);
    run.records()
}

#[test]
fn frames_are_indented() {
    let kernel_frames = [
        "vmlinux`vfs_read+0x34",
        "vmlinux`ksys_read",
        "vmlinux`0xffff0ff0",
        "0x10",
    ];
    let user_frames = ["app`work+0x10", "app`main", "app`0x400555", "0x1234"];
    let lines = |frames: [&str; 4], indent: usize| {
        let lines = frames.map(|frame| format!("{:indent$}{frame}\n", ""));
        format!("\n{}", lines.concat())
    };
    let text = printed(&mut Run::quiet(), |d| ActionKind::Trace(kernel(d)));
    assert_eq!(text, lines(kernel_frames, 14));
    let text = printed(&mut Run::quiet(), |d| ActionKind::Trace(user(d)));
    assert_eq!(text, lines(user_frames, 14));
    let mut run = Run::quiet();
    run.options.stack_indent = 2;
    assert_eq!(
        printed(&mut run, |d| ActionKind::Trace(kernel(d))),
        lines(kernel_frames, 2)
    );
    let text = printed(&mut Run::quiet(), |d| printf("%k|", vec![user(d)]));
    assert_eq!(text, lines(user_frames, 0) + "|");
    let text = printed(&mut Run::quiet(), |d| printf("%-4k", vec![kernel(d)]));
    assert_eq!(text, lines(kernel_frames, 4));
    let text = printed(&mut Run::quiet(), |d| printf("%20k", vec![user(d)]));
    let right = user_frames.map(|frame| format!("{frame:>20}\n"));
    assert_eq!(text, format!("\n{}", right.concat()));
}

/// A return address may be behind the end of the function that calls.
#[test]
fn marked_words_are_return_addresses_or_say_why_a_stack_ends() {
    use dwell_abi::events::{RETURN_BIT, STACK_CUT_SHORT};
    use dwell_abi::unwind::StackEnd;
    let returns = |address: u64| address | 1 << RETURN_BIT;
    let cut = u64::from(STACK_CUT_SHORT) << 32 | StackEnd::NoRow as u64;
    let text = printed(&mut Run::quiet(), |data| {
        let words = [9, 0x40_0110, returns(0x40_0101), returns(0x40_0100), cut];
        ActionKind::Trace(data.words(&words, FieldKind::UserStack { strings: 0 }))
    });
    let frames: Vec<&str> = text.split_whitespace().collect();
    assert_eq!(
        frames[..3],
        ["app`work+0x10", "app`work+0x1", "app`main+0x100"]
    );
    assert_eq!(frames[3..].join(" "), "[stack cut short: no_unwind_info]");
}

#[test]
fn unresolved_frames_are_offsets_in_their_module() {
    let mut run = Run::quiet();
    run.options.no_resolve = true;
    let text = printed(&mut run, |d| ActionKind::Trace(user(d)));
    let frames = ["app:0x110", "app:0x0", "app:0x555", "0x1234"];
    let lines = frames.map(|frame| format!("{:14}{frame}\n", ""));
    assert_eq!(text, format!("\n{}", lines.concat()));
}

#[test]
fn addresses_stand_in_a_column() {
    let traced =
        |kind, words: &[u64]| printed(&mut Run::new(), |d| ActionKind::Trace(d.words(words, kind)));
    let row = |name: &str| format!("  0      1 {:>32}   {name:50}\n", ":BEGIN");
    let kernel = |part| traced(FieldKind::KernelAddress(part), &[0xffff_0134]);
    assert!(kernel(AddressPart::Symbol).ends_with(&row("vmlinux`vfs_read")));
    assert!(kernel(AddressPart::Function).ends_with(&row("vmlinux`vfs_read")));
    assert!(kernel(AddressPart::Module).ends_with(&row("vmlinux")));
    let user = |part, pid| traced(FieldKind::UserAddress(part), &[pid, 0x40_0110]);
    assert!(user(AddressPart::Symbol, 9).ends_with(&row("app`work")));
    assert!(user(AddressPart::Exact, 9).ends_with(&row("app`work+0x10")));
    assert!(user(AddressPart::Module, 9).ends_with(&row("app")));
    assert!(user(AddressPart::Symbol, 77).ends_with(&row("0x400110")));
}

#[test]
fn stacks_are_keys() {
    let mut run = Run::quiet();
    let id = run.aggregation(Aggregate::Count);
    run.add(id, |data| vec![kernel(data), data.i32(1)], 0, 1);
    let text = run.all();
    assert!(
        text.starts_with("\n\n              vmlinux`vfs_read+0x34\n"),
        "{text}"
    );
    assert!(
        text.ends_with("              0x10\n        1                1\n"),
        "{text}"
    );
}
