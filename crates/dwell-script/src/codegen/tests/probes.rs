//! ERROR, speculations, and the arguments of static probes.
use super::Running;
use crate::codegen::{Generator, Limits, Numbering, Operand, OperandPlace};
use crate::{Bare, Input, compile};

fn compiled(source: &str) -> crate::typed::Script {
    let input = Input {
        source,
        ..Input::default()
    };
    compile(&input, &Bare)
        .unwrap_or_else(|e| panic!("{source}: {e}"))
        .0
}

fn words(record: &[u8]) -> Vec<i64> {
    let words = record.as_chunks::<8>().0.iter();
    words.map(|w| i64::from_le_bytes(*w)).collect()
}

#[test]
fn errors_fire_a_probe_that_knows_them() {
    let script = compiled(
        "pid1:::entry { trace(1); trace((int64_t)*(char *)arg0); }
        dtrace:::ERROR { trace((int64_t)arg1); trace((int64_t)arg2); trace((int64_t)arg4);
            trace((int64_t)arg5); trace((int64_t)id); }
        pid1:::entry { trace((int64_t)id); }",
    );
    let mut running = Running::with_errors(&script, &[0, 2], &[1]);
    running.fire(0x777, 0);
    let records = running.records();
    assert_eq!(
        records.len(),
        3,
        "the error, ERROR's record, the last clause's"
    );
    assert_eq!(words(&records[1]), [1, 2, 1, 0x777, 3]);
    assert_eq!(words(&records[2]), [77], "the probe is the same again");
}

#[test]
fn an_error_in_error_does_not_fire_again() {
    let script =
        compiled("pid1:::entry { trace(1 / (int)arg0); } dtrace:::ERROR { trace(2 / (int)arg0); }");
    let mut running = Running::with_errors(&script, &[0], &[1]);
    running.fire(0, 0);
    assert_eq!(running.records().len(), 1);
}

#[test]
fn speculations_are_taken_and_given_back() {
    let script = compiled(
        "pid1:::entry /arg0 == 1/ { trace((int64_t)(self->s = speculation())); }
        pid1:::entry /arg0 == 2/ { speculate(self->s); trace(1); }
        pid1:::entry /arg0 == 3/ { commit(self->s); }",
    );
    let mut running = Running::new(&script);
    let taken = |running: &mut Running<'_>| {
        running.fire(1, 0);
        words(&running.records()[0])[0]
    };
    let first = taken(&mut running);
    assert!(first > 0);
    running.fire(2, 0);
    assert_eq!(running.speculations(), [first as u32]);
    assert_eq!(taken(&mut running), 0, "there is only one");
    running.fire(1, 0);
    running.records();
    // The variable is 0 now: nothing is committed.
    running.fire(3, 0);
    running.records();
    assert_eq!(taken(&mut running), 0);
}

#[test]
fn numbers_of_speculations_are_new_each_time() {
    let script = compiled(
        "pid1:::entry /arg0 == 1/ { trace((int64_t)(self->s = speculation())); }
        pid1:::entry /arg0 == 2/ { speculate(arg1); trace(1); }
        pid1:::entry /arg0 == 3/ { discard(arg1); }",
    );
    let mut running = Running::new(&script);
    let mut taken = Vec::new();
    for _ in 0..3 {
        running.fire(1, 0);
        let number = words(&running.records()[0])[0];
        assert!(number > 0 && !taken.contains(&number), "{taken:?} {number}");
        running.fire(3, number);
        running.records();
        // It has ended: who speaks of it still says nothing.
        running.fire(2, number);
        assert!(running.speculations().is_empty());
        taken.push(number);
    }
}

#[test]
fn operands_are_read_where_the_note_says() {
    let script = compiled(
        "pid1:::entry { trace(arg0); trace(arg1); trace(arg2); trace(arg3); trace(arg4); trace(arg5); }",
    );
    let operand = |size, signed, place| Operand {
        size,
        signed,
        place,
    };
    let register = |index, shift| OperandPlace::Register { index, shift };
    let memory = |base, index, displacement| OperandPlace::Memory {
        base,
        index,
        displacement,
    };
    let operands = [
        operand(4, true, OperandPlace::Constant(-5)),
        operand(4, true, register(14, 0)),
        operand(1, false, register(14, 8)),
        operand(2, false, memory(Some(13), None, 1)),
        operand(1, true, memory(None, Some((13, 1)), 0)),
    ];
    let mut generator = Generator::new(&script, &Limits::default());
    let site = generator.static_site(&operands);
    assert_eq!(site, generator.static_site(&operands));
    let program = generator.program(site, &Numbering::Cookie, &[0]);
    let mut running = Running::of(generator, program.expect("a program is made").code);
    running.model.world.memory = vec![0xf0, 0x01, 0x02];
    running.fire(0x1_8000_1234, 0x1000);
    let record = &running.records()[0];
    assert_eq!(words(record), [-5, -0x7fff_edcc, 0x12, 0x0201, -16, 0]);
}

#[test]
fn an_operand_out_of_reach_is_refused_where_it_is_used() {
    let script = compiled("pid1:::entry { trace(arg1); } pid1:::entry { trace(arg0); }");
    let mut generator = Generator::new(&script, &Limits::default());
    let unreadable = Operand {
        size: 8,
        signed: false,
        place: OperandPlace::Unreadable("it is in %xmm0".into()),
    };
    let constant = Operand {
        place: OperandPlace::Constant(1),
        ..unreadable.clone()
    };
    let site = generator.static_site(&[constant, unreadable]);
    let refused = generator.program(site, &Numbering::Cookie, &[0]);
    let message = refused.expect_err("it cannot be read").to_string();
    assert!(
        message.contains("arg1") && message.contains("%xmm0"),
        "{message}"
    );
    assert!(generator.program(site, &Numbering::Cookie, &[1]).is_ok());
}
