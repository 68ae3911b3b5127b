//! Refuses, outside of a block, to change objects that DEPLOY transactions put under the ledger
//! (X8): views, functions, types, schemas, and rights of roles that such a transaction named.
use pgrx::pg_sys::Oid;

use crate::ledger::known_definitions::{governs, known, Known};
use crate::ledger::procedures;
use crate::pg::base::catalog;
use crate::pg::base::error::PgError;
use crate::pg::ddl::targets::{Address, Rights};

/// Raises CH003 when the object of a catalog is under the ledger, or belongs to one that is.
pub fn refuse_change(class: Oid, object: Oid) {
    const FOLLOWED: [Oid; 4] = [
        catalog::RELATIONS,
        catalog::FUNCTIONS,
        catalog::TYPES,
        catalog::SCHEMAS,
    ];
    let whole =
        catalog::table_of(class, object).map(|(relation, _)| (catalog::RELATIONS, relation));
    let (class, object) = whole.unwrap_or((class, object));
    if !FOLLOWED.contains(&class) {
        return;
    }
    // The attributes of a composite type are columns of a relation that has its name.
    let row_type = (class == catalog::RELATIONS).then(|| catalog::row_type(object));
    let found = known().into_iter().find(|k| {
        (k.class, k.object) == (class, object)
            || (k.class == catalog::TYPES && Some(k.object) == row_type)
    });
    if let Some(found) = found {
        refusal(&found).raise();
    }
    let procedure = (class == catalog::FUNCTIONS).then(|| procedures::named_as(object));
    if let Some(name) = procedure.flatten() {
        PgError::new(b"CH003", format!("procedure \"{name}\" is on the ledger"))
            .detail("The organisations agreed to its words.")
            .hint("Make another one under a new name, and attach that.")
            .raise();
    }
}

/// Raises CH003 for a GRANT, REVOKE, DROP OWNED or ALTER ROLE ... RENAME that the ledger would know
/// of. Rights of other roles are the organisation's own matter.
pub fn refuse_rights(rights: &Rights) {
    let known = known();
    let governed = rights.roles.iter().find(|role| governs(role));
    if known.is_empty() || !(rights.public || governed.is_some()) {
        return;
    }
    if let (true, Some(role)) = (rights.all, governed) {
        PgError::new(b"CH003", format!("rights of role \"{role}\" are on the ledger"))
            .detail("A DEPLOY transaction named the role; what it may do is agreed between the organisations.")
            .hint("Submit GRANT and REVOKE with SELECT chainify.deploy('...'). Instead of DROP OWNED, drop objects by name; instead of another name, give the rights to another role.")
            .raise();
    }
    let meant = |k: &&Known| {
        let address = Address {
            class: k.class,
            object: k.object,
        };
        let in_schema = |s| k.class == rights.class && rights.schemas.contains(&s);
        rights.objects.contains(&address)
            || catalog::schema_of_object(k.class, k.object).is_some_and(in_schema)
    };
    if let Some(found) = known.iter().find(meant) {
        refusal(found).raise();
    }
}

fn refusal(known: &Known) -> PgError {
    let message = format!("{} {} is on the ledger", known.kind, known.identity);
    PgError::new(b"CH003", message)
        .detail("Its definition and the rights on it are agreed between the organisations.")
        .hint("Submit the statement with SELECT chainify.deploy('...').")
}
