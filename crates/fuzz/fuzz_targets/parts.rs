//! The messages between the processes that execute one block: a message that was read is written
//! and read as the same, and fits itself.

#![no_main]

use chainify_ledger::parts::{LeaderSays, LeafList, Nets, PartReport, WorkerSays};
use libfuzzer_sys::fuzz_target;
use prost::Message;

fn leader(bytes: &[u8]) {
    match LeaderSays::read(bytes) {
        Ok(LeaderSays::Run(request)) => {
            assert_eq!(request.members.len(), request.bodies.len());
            assert!(request.members.is_sorted_by(|a, b| a < b));
            let again = LeaderSays::read(&LeaderSays::Run(request.clone()).write());
            assert!(matches!(again, Ok(LeaderSays::Run(again)) if again == request));
        }
        Ok(says) => assert_eq!(says.write(), bytes),
        Err(_) => {}
    }
}

fn report(bytes: &[u8]) {
    let Ok(members) = PartReport::decode(bytes).map(|report| report.outcomes.len()) else { return };
    assert!(PartReport::read(bytes, members + 1).is_err());
    let Ok(report) = PartReport::read(bytes, members) else { return };
    let none = LeafList::default();
    let list = report.leaves.as_ref().unwrap_or(&none);
    assert_eq!(report.leaves().count(), list.len());
    assert_eq!(report.leaves().map(|leaf| leaf.pk.len()).sum::<usize>(), list.pks.len());
    assert_eq!(PartReport::read(&report.encode_to_vec(), members).as_ref(), Ok(&report));
}

fuzz_target!(|bytes: &[u8]| {
    leader(bytes);
    if let Ok(says) = WorkerSays::read(bytes.to_vec()) {
        if let WorkerSays::Ready(bytes) = &says {
            report(bytes);
        }
        assert_eq!(WorkerSays::read(says.write()).as_ref(), Ok(&says));
    }
    if let Ok(nets) = Nets::read(bytes) {
        assert_eq!(Nets::read(&nets.write()).as_ref(), Ok(&nets));
    }
});
