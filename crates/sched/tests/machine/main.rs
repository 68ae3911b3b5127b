//! In each order that the graph allows, with each way of merging parts, outcomes and rows are those
//! of the serial run. The tests use a small database whose access sets follow the table in
//! `spec/scheduling.md`.

mod database;

use chainify_sched::{division, graph, AccessSet, Graph, TxIndex};
use chainify_seeded::check;
use database::{Database, Outcome, Statement};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;

type Transaction = Vec<Statement>;

fn blocks() -> impl Strategy<Value = (Database, Vec<Transaction>)> {
    (database::databases(), vec(vec(database::statements(), 1..3), 0..12))
}

fn graph_of(block: &[Transaction]) -> Graph {
    let set_of = |tx: &Transaction| {
        let mut set = AccessSet::new();
        tx.iter().for_each(|statement| set.add(&statement.access()));
        set
    };
    graph::build(&block.iter().map(set_of).collect::<Vec<_>>())
}

/// The database after the block, and the outcome of each transaction, by transaction.
fn run(database: &Database, block: &[Transaction], order: &[TxIndex]) -> (Database, Vec<Option<Outcome>>) {
    let mut database = database.clone();
    let mut outcomes = vec![None; block.len()];
    for tx in order {
        outcomes[*tx as usize] = Some(database.run(&block[*tx as usize]));
    }
    (database, outcomes)
}

fn in_block_order(block: &[Transaction]) -> Vec<TxIndex> {
    (0..block.len() as TxIndex).collect()
}

/// An order in which each transaction comes after all that it waits for.
fn allowed_order(graph: &Graph, choices: &[Index]) -> Vec<TxIndex> {
    let mut order: Vec<TxIndex> = Vec::new();
    for choice in choices.iter().take(graph.transactions() as usize) {
        let may_run = |tx: &TxIndex| graph.waits_for(*tx).iter().all(|edge| order.contains(&edge.earlier));
        let may_run: Vec<_> = (0..graph.transactions()).filter(|tx| !order.contains(tx)).filter(may_run).collect();
        order.push(may_run[choice.index(may_run.len())]);
    }
    order
}

#[test]
fn every_order_that_the_graph_allows_gives_the_serial_result() {
    check(4000, (blocks(), vec(any::<Index>(), 12)), |((database, block), choices)| {
        let graph = graph_of(&block);
        let order = allowed_order(&graph, &choices);
        prop_assert_eq!(run(&database, &block, &order), run(&database, &block, &in_block_order(&block)), "{:?}", order);
        Ok(())
    });
}

/// As in PostgreSQL no part sees what another does before all commit, each starts from the rows
/// before the block.
#[test]
fn parts_that_do_not_see_each_other_merge_to_the_serial_result() {
    check(4000, (blocks(), 2u32..5), |((before, block), workers)| {
        let division = division::assign(&graph_of(&block), &vec![1; block.len()], workers);
        let (mut merged, mut outcomes) = (before.clone(), vec![None; block.len()]);
        for part in division.parts() {
            let (after, of_part) = run(&before, &block, part);
            part.iter().for_each(|tx| outcomes[*tx as usize] = of_part[*tx as usize].clone());
            prop_assert!(merged.take_changes(&before, &after), "two parts changed one row");
        }
        prop_assert_eq!((merged, outcomes), run(&before, &block, &in_block_order(&block)));
        Ok(())
    });
}

/// Were every block one component, the tests above would show nothing. About 100 blocks have
/// several, with a standard deviation under 10: the bound is far from both.
#[test]
fn many_blocks_have_more_than_one_part() {
    let blocks_of_many = std::cell::Cell::new(0);
    check(400, blocks(), |(_, block)| {
        blocks_of_many.set(blocks_of_many.get() + u32::from(graph_of(&block).components() > 1));
        Ok(())
    });
    assert!(blocks_of_many.get() > 30, "{} of 400 blocks", blocks_of_many.get());
}
