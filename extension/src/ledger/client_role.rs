//! The roles that clients' transactions run as.
use std::cell::RefCell;
use std::collections::HashMap;

use crate::pg::base::catalog;
use crate::pg::base::error::PgError;
use crate::pg::base::role::Role;

/// Roles kept in a session, of each group.
const KEPT_MAX: usize = 1_024;

/// Members of a group by name, as of a generation of the catalog.
#[derive(Default)]
struct Members {
    generation: u64,
    by_name: HashMap<String, Role>,
}

impl Members {
    fn find(&mut self, name: &str) -> Option<Role> {
        let generation = catalog::generation();
        if self.generation != generation || self.by_name.len() >= KEPT_MAX {
            self.by_name.clear();
            self.generation = generation;
        }
        self.by_name.get(name).copied()
    }
}

thread_local! {
    static CLIENTS: RefCell<Members> = RefCell::default();
}

/// The role of a client that submits SQL, which must be what submitting asks for in every
/// organisation.
pub fn of_client(name: &str) -> Result<Role, PgError> {
    if let Some(known) = CLIENTS.with_borrow_mut(|clients| clients.find(name)) {
        return Ok(known);
    }
    let role = member(name, "chainify_client")?;
    CLIENTS.with_borrow_mut(|clients| clients.by_name.insert(name.to_owned(), role));
    Ok(role)
}

/// The role of one that submits changes of definitions.
pub fn of_admin(name: &str) -> Result<Role, PgError> {
    member(name, "chainify_admin")
}

fn member(name: &str, group: &str) -> Result<Role, PgError> {
    let Some(role) = Role::find(name) else {
        return Err(PgError::new(
            b"28000",
            format!("role \"{name}\" does not exist"),
        ));
    };
    if role.is_superuser() {
        return Err(PgError::new(
            b"42501",
            format!("role \"{name}\" is a superuser and cannot run ledger transactions"),
        ));
    }
    if !role.is_member_of(group) {
        return Err(PgError::new(
            b"42501",
            format!("role \"{name}\" is not a member of {group}"),
        ));
    }
    Ok(role)
}
