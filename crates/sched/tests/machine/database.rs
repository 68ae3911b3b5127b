//! Two tables. Accounts have two unique keys, id and email, and one that is not, branch; cards
//! refer to accounts by id.

use std::collections::BTreeMap;
use std::ops::{Bound, RangeInclusive};

use chainify_sched::{AccessSet, Interval, KeyId, Place, RelationId};
use proptest::prelude::*;

const ACCOUNTS: RelationId = 1;
const CARDS: RelationId = 2;
const ID: KeyId = 0;
const EMAIL: KeyId = 1;
const BRANCH: KeyId = 2;
/// The key of cards, and what they refer to.
const NUMBER: KeyId = 0;
const OWNER: KeyId = 1;

#[derive(Clone, Debug, PartialEq, Eq)]
struct Account {
    email: u8,
    branch: u8,
    balance: i64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Database {
    /// By id.
    accounts: BTreeMap<u8, Account>,
    /// Owner by number.
    cards: BTreeMap<u8, u8>,
}

#[derive(Clone, Debug)]
pub enum Statement {
    Insert {
        id: u8,
        email: u8,
        branch: u8,
    },
    DeleteById(u8),
    DeleteByEmail(u8),
    AddToIds(RangeInclusive<u8>, i64),
    AddToEmail(u8, i64),
    AddToIdOfBranch(u8, u8, i64),
    /// All accounts of one branch to another.
    Move {
        from: u8,
        to: u8,
    },
    SetEmail {
        id: u8,
        email: u8,
    },
    /// The balance of one account becomes that of another.
    Copy {
        from: u8,
        to: u8,
    },
    SumOfIds(RangeInclusive<u8>),
    SumOfBranch(u8),
    IdOfEmail(u8),
    InsertCard {
        number: u8,
        owner: u8,
    },
    DeleteCard(u8),
    /// Reads nothing that any statement changes in place.
    CountCardsOf(u8),
}

/// The result of a transaction's statements; an error rolls the transaction back.
pub type Outcome = Result<Vec<i64>, &'static str>;

impl Database {
    pub fn run(&mut self, transaction: &[Statement]) -> Outcome {
        let before = self.clone();
        let outcome: Outcome = transaction.iter().map(|statement| self.execute(statement)).collect();
        if outcome.is_err() {
            *self = before;
        }
        outcome
    }

    fn execute(&mut self, statement: &Statement) -> Result<i64, &'static str> {
        use Statement::*;
        match statement {
            Insert { id, email, branch } => {
                if self.accounts.contains_key(id) || self.id_of(*email).is_some() {
                    return Err("duplicate key");
                }
                self.accounts.insert(*id, Account { email: *email, branch: *branch, balance: 0 });
                Ok(1)
            }
            DeleteById(id) => self.delete(Some(*id)),
            DeleteByEmail(email) => self.delete(self.id_of(*email)),
            AddToIds(ids, amount) => Ok(self.change(|id, _| ids.contains(&id), |account| account.balance += amount)),
            AddToEmail(email, amount) => {
                Ok(self.change(|_, account| account.email == *email, |account| account.balance += amount))
            }
            AddToIdOfBranch(wanted, branch, amount) => {
                let is_it = |id, account: &Account| id == *wanted && account.branch == *branch;
                Ok(self.change(is_it, |account| account.balance += amount))
            }
            Move { from, to } => Ok(self.change(|_, account| account.branch == *from, |account| account.branch = *to)),
            SetEmail { id, email } => match self.id_of(*email) {
                Some(other) if other != *id && self.accounts.contains_key(id) => Err("duplicate key"),
                _ => Ok(self.change(|of, _| of == *id, |account| account.email = *email)),
            },
            Copy { from, to } => {
                let balance = self.accounts.get(from).map_or(0, |account| account.balance);
                Ok(self.change(|id, _| id == *to, |account| account.balance = 2 * balance + 1))
            }
            SumOfIds(ids) => Ok(self.sum(|id, _| ids.contains(&id))),
            SumOfBranch(branch) => Ok(self.sum(|_, account| account.branch == *branch)),
            IdOfEmail(email) => Ok(self.id_of(*email).map_or(-1, i64::from)),
            InsertCard { number, owner } => {
                if !self.accounts.contains_key(owner) || self.cards.contains_key(number) {
                    return Err("no such account, or duplicate key");
                }
                self.cards.insert(*number, *owner);
                Ok(1)
            }
            DeleteCard(number) => Ok(i64::from(self.cards.remove(number).is_some())),
            CountCardsOf(owner) => Ok(self.cards.values().filter(|of| *of == owner).count() as i64),
        }
    }

    fn id_of(&self, email: u8) -> Option<u8> {
        self.accounts.iter().find(|(_, account)| account.email == email).map(|(id, _)| *id)
    }

    fn delete(&mut self, id: Option<u8>) -> Result<i64, &'static str> {
        let Some(id) = id.filter(|id| self.accounts.contains_key(id)) else { return Ok(0) };
        if self.cards.values().any(|owner| *owner == id) {
            return Err("cards refer to it");
        }
        self.accounts.remove(&id);
        Ok(1)
    }

    fn change(&mut self, which: impl Fn(u8, &Account) -> bool, how: impl Fn(&mut Account)) -> i64 {
        let found = self.accounts.iter_mut().filter(|(id, account)| which(**id, account));
        found.map(|(_, account)| how(account)).count() as i64
    }

    fn sum(&self, which: impl Fn(u8, &Account) -> bool) -> i64 {
        let found = self.accounts.iter().filter(|(id, account)| which(**id, account));
        found.map(|(_, account)| account.balance + 1).sum()
    }

    /// Takes the rows in which `after` differs from `before`; false when one of them has been
    /// changed here as well.
    pub fn take_changes(&mut self, before: &Self, after: &Self) -> bool {
        take(&mut self.accounts, &before.accounts, &after.accounts)
            && take(&mut self.cards, &before.cards, &after.cards)
    }
}

fn take<R: Clone + PartialEq>(rows: &mut BTreeMap<u8, R>, before: &BTreeMap<u8, R>, after: &BTreeMap<u8, R>) -> bool {
    for key in 0..=u8::MAX {
        if before.get(&key) == after.get(&key) {
            continue;
        }
        if rows.get(&key) != before.get(&key) {
            return false;
        }
        match after.get(&key) {
            Some(row) => drop(rows.insert(key, row.clone())),
            None => drop(rows.remove(&key)),
        }
    }
    true
}

fn at(key: KeyId, value: u8) -> Place {
    Place::point(key, [value])
}

fn ids(range: &RangeInclusive<u8>) -> Place {
    let interval = Interval::range(Bound::Included(&[*range.start()]), Bound::Included(&[*range.end()]));
    Place::within([(ID, interval.expect("ranges are not empty"))]).expect("one bound")
}

fn both(bounds: &[(KeyId, u8)]) -> Place {
    Place::within(bounds.iter().map(|(key, value)| (*key, Interval::point([*value])))).expect("different keys")
}

impl Statement {
    /// By the table in `spec/scheduling.md`, "What a statement contributes".
    pub fn access(&self) -> AccessSet {
        use Statement::*;
        let mut set = AccessSet::new();
        match self {
            Insert { id, email, branch } => {
                set.insert(ACCOUNTS, both(&[(ID, *id), (EMAIL, *email), (BRANCH, *branch)]), &[ID, EMAIL]);
            }
            DeleteById(id) => {
                set.select(CARDS, at(OWNER, *id));
                set.delete(ACCOUNTS, at(ID, *id), &[ID, EMAIL]);
            }
            DeleteByEmail(email) => {
                set.select(CARDS, Place::whole());
                set.delete(ACCOUNTS, at(EMAIL, *email), &[ID, EMAIL]);
            }
            AddToIds(range, _) => set.update(ACCOUNTS, ids(range), &[]),
            AddToEmail(email, _) => set.update(ACCOUNTS, at(EMAIL, *email), &[]),
            AddToIdOfBranch(id, branch, _) => set.update(ACCOUNTS, both(&[(ID, *id), (BRANCH, *branch)]), &[]),
            Move { .. } => set.update(ACCOUNTS, Place::whole(), &[]), // not bounded in what changes
            SetEmail { id, .. } => set.update(ACCOUNTS, at(ID, *id), &[EMAIL]),
            Copy { from, to } => {
                set.select(ACCOUNTS, at(ID, *from));
                set.update(ACCOUNTS, at(ID, *to), &[]);
            }
            SumOfIds(range) => set.select(ACCOUNTS, ids(range)),
            SumOfBranch(branch) => set.select(ACCOUNTS, at(BRANCH, *branch)),
            IdOfEmail(email) => set.select(ACCOUNTS, at(EMAIL, *email)),
            InsertCard { number, owner } => {
                set.look_up(ACCOUNTS, ID, Interval::point([*owner]));
                set.insert(CARDS, both(&[(NUMBER, *number), (OWNER, *owner)]), &[NUMBER]);
            }
            DeleteCard(number) => set.delete(CARDS, at(NUMBER, *number), &[NUMBER]),
            CountCardsOf(owner) => set.select(CARDS, at(OWNER, *owner)),
        }
        set
    }
}

fn small() -> impl Strategy<Value = u8> {
    0u8..10
}

fn ranges() -> impl Strategy<Value = RangeInclusive<u8>> {
    (small(), 0u8..4).prop_map(|(from, length)| from..=from + length)
}

pub fn statements() -> impl Strategy<Value = Statement> {
    use Statement::*;
    let pair = || (small(), small());
    let inserts = (small(), small(), 0u8..3).prop_map(|(id, email, branch)| Insert { id, email, branch });
    prop_oneof![
        4 => inserts,
        3 => small().prop_map(DeleteById),
        2 => small().prop_map(DeleteByEmail),
        4 => (ranges(), 1i64..9).prop_map(|(ids, amount)| AddToIds(ids, amount)),
        2 => (small(), 1i64..9).prop_map(|(email, amount)| AddToEmail(email, amount)),
        2 => (small(), 0u8..3, 1i64..9).prop_map(|(id, branch, amount)| AddToIdOfBranch(id, branch, amount)),
        1 => (0u8..3, 0u8..3).prop_map(|(from, to)| Move { from, to }),
        2 => pair().prop_map(|(id, email)| SetEmail { id, email }),
        4 => pair().prop_map(|(from, to)| Copy { from, to }),
        3 => ranges().prop_map(SumOfIds),
        1 => (0u8..3).prop_map(SumOfBranch),
        2 => small().prop_map(IdOfEmail),
        4 => pair().prop_map(|(number, owner)| InsertCard { number, owner }),
        2 => small().prop_map(DeleteCard),
        2 => small().prop_map(CountCardsOf),
    ]
}

pub fn databases() -> impl Strategy<Value = Database> {
    // Emails are another order of the ids, so that both keys are unique.
    let accounts = proptest::collection::btree_map(small(), (0u8..3, 0i64..5), 0..10);
    let accounts = accounts.prop_map(|rows| {
        let account = |id, (branch, balance)| Account { email: (id * 3 + 1) % 10, branch, balance };
        rows.into_iter().map(|(id, of)| (id, account(id, of))).collect::<BTreeMap<_, _>>()
    });
    (accounts, proptest::collection::btree_map(small(), small(), 0..4)).prop_map(|(accounts, mut cards)| {
        cards.retain(|_, owner| accounts.contains_key(owner));
        Database { accounts, cards }
    })
}
