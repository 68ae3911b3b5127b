//! Looks up the objects that a statement would change, before it runs.
use std::ffi::CStr;
use std::ptr::NonNull;

use chainify_rules::objects::granted;
use pgrx::pg_sys;
use pgrx::pg_sys::NodeTag::*;

use crate::base::error::{catch_c, OrRaise, PgError};
use crate::base::lists::nodes;
use crate::ddl::deploy_statements::{text, Definition};
use crate::ddl::kinds::object;

mod raw {
    use super::pg_sys;
    c_functions! {
        pub(crate) fn get_object_address(
            kind: pg_sys::ObjectType::Type,
            object: *mut pg_sys::Node,
            relation: *mut pg_sys::Relation,
            lock: pg_sys::LOCKMODE,
            missing_ok: bool,
        ) -> pg_sys::ObjectAddress;
        pub(crate) fn relation_close(relation: pg_sys::Relation, lock: pg_sys::LOCKMODE);
        pub(crate) fn RangeVarGetRelidExtended(
            name: *const pg_sys::RangeVar,
            lock: pg_sys::LOCKMODE,
            flags: u32,
            callback: pg_sys::RangeVarGetRelidCallback,
            argument: *mut std::ffi::c_void,
        ) -> pg_sys::Oid;
        pub(crate) fn makeTypeNameFromNameList(names: *mut pg_sys::List) -> *mut pg_sys::TypeName;
        pub(crate) fn typenameTypeId(
            state: *mut pg_sys::ParseState,
            name: *const pg_sys::TypeName,
        ) -> pg_sys::Oid;
    }
    extern "C-unwind" {
        /// 17 promises not to change the names.
        pub(crate) fn makeRangeVarFromNameList(names: *mut pg_sys::List) -> *mut pg_sys::RangeVar;
    }
}

/// An object of the catalogs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Address {
    pub class: pg_sys::Oid,
    pub object: pg_sys::Oid,
}

const PG_CLASS: u32 = 1259;
const PG_PROC: u32 = 1255;
const PG_TYPE: u32 = 1247;

impl Definition<'_> {
    /// The existing objects that it changes or names, before it runs; none for a CREATE that names
    /// none. Relations are locked against being dropped. Errors: those of looking them up.
    pub fn targets(&self) -> Result<Vec<Address>, PgError> {
        // SAFETY: each structure is the one that the tag names; look-ups run guarded.
        unsafe {
            match self.statement.as_ref().type_ {
                T_AlterTableStmt => one(relation(self.at::<pg_sys::AlterTableStmt>().relation)),
                T_IndexStmt => one(relation(self.at::<pg_sys::IndexStmt>().relation)),
                T_CreatePolicyStmt => one(relation(self.at::<pg_sys::CreatePolicyStmt>().table)),
                T_AlterPolicyStmt => one(relation(self.at::<pg_sys::AlterPolicyStmt>().table)),
                T_RenameStmt => {
                    let s = self.at::<pg_sys::RenameStmt>();
                    one(named(s.renameType, s.relation, s.object))
                }
                T_AlterObjectSchemaStmt => {
                    let s = self.at::<pg_sys::AlterObjectSchemaStmt>();
                    one(named(s.objectType, s.relation, s.object))
                }
                T_AlterOwnerStmt => {
                    let s = self.at::<pg_sys::AlterOwnerStmt>();
                    one(named(s.objectType, s.relation, s.object))
                }
                T_AlterFunctionStmt => {
                    let s = self.at::<pg_sys::AlterFunctionStmt>();
                    one(address(s.objtype, s.func.cast()))
                }
                T_AlterEnumStmt => one(type_named(self.at::<pg_sys::AlterEnumStmt>().typeName)),
                T_AlterDomainStmt => one(type_named(self.at::<pg_sys::AlterDomainStmt>().typeName)),
                T_CreateStmt => {
                    let parents = nodes(self.at::<pg_sys::CreateStmt>().inhRelations);
                    parents.map(|p| relation(p.cast().as_ptr())).collect()
                }
                T_CreateSeqStmt => {
                    let s = self.at::<pg_sys::CreateSeqStmt>();
                    sequence_owner(s.options).into_iter().collect()
                }
                T_AlterSeqStmt => {
                    let s = self.at::<pg_sys::AlterSeqStmt>();
                    let own = std::iter::once(relation(s.sequence));
                    own.chain(sequence_owner(s.options)).collect()
                }
                T_CommentStmt => {
                    let s = self.at::<pg_sys::CommentStmt>();
                    one(address(s.objtype, s.object))
                }
                T_DropStmt => {
                    let s = self.at::<pg_sys::DropStmt>();
                    nodes(s.objects)
                        .map(|object| address(s.removeType, object.as_ptr()))
                        .collect()
                }
                T_GrantStmt => {
                    let s = self.at::<pg_sys::GrantStmt>();
                    let of = |object: NonNull<pg_sys::Node>| match s.objtype {
                        pg_sys::ObjectType::OBJECT_TABLE | pg_sys::ObjectType::OBJECT_SEQUENCE => {
                            relation(object.cast().as_ptr())
                        }
                        pg_sys::ObjectType::OBJECT_TYPE | pg_sys::ObjectType::OBJECT_DOMAIN => {
                            type_named(object.cast().as_ptr())
                        }
                        kind => address(kind, object.as_ptr()),
                    };
                    nodes(s.objects).map(of).collect()
                }
                _ => Ok(Vec::new()),
            }
        }
    }
}

/// Whose rights a GRANT, REVOKE, DROP OWNED or ALTER ROLE ... RENAME changes, and on what.
pub struct Rights {
    pub roles: Vec<String>,
    /// All that the roles may do.
    pub all: bool,
    pub public: bool,
    pub objects: Vec<Address>,
    /// Of ALL … IN SCHEMA, with the catalog of the objects meant.
    pub schemas: Vec<pg_sys::Oid>,
    pub class: pg_sys::Oid,
}

impl Rights {
    /// None for any other statement, and for kinds of objects that no DEPLOY transaction makes.
    /// Raises what looking the objects up raises.
    ///
    /// # Safety
    /// `node` must be a utility statement about to run.
    pub(crate) unsafe fn of(node: *mut pg_sys::Node) -> Option<Rights> {
        use pg_sys::GrantTargetType::{ACL_TARGET_ALL_IN_SCHEMA, ACL_TARGET_OBJECT};
        let statement = NonNull::new(node)?;
        // SAFETY: the tag says which structure follows; ALL … IN SCHEMA lists names of schemas.
        unsafe {
            let all_of = |roles: Vec<String>| Rights {
                roles,
                all: true,
                public: false,
                objects: Vec::new(),
                schemas: Vec::new(),
                class: PG_CLASS.into(),
            };
            if statement.as_ref().type_ == T_DropOwnedStmt {
                let role = |role: NonNull<pg_sys::Node>| {
                    let name = catch_c(|| pg_sys::get_rolespec_name(role.as_ptr().cast()));
                    text(name.or_raise()).unwrap_or_default()
                };
                let roles = nodes(statement.cast::<pg_sys::DropOwnedStmt>().as_ref().roles);
                return Some(all_of(roles.map(role).collect()));
            }
            if statement.as_ref().type_ == T_RenameStmt {
                let rename = statement.cast::<pg_sys::RenameStmt>().as_ref();
                let of_role = rename.renameType == pg_sys::ObjectType::OBJECT_ROLE;
                return of_role.then(|| all_of(text(rename.subname).into_iter().collect()));
            }
            if statement.as_ref().type_ != T_GrantStmt {
                return None;
            }
            let grant = statement.cast::<pg_sys::GrantStmt>().as_ref();
            let definition = Definition::of("", statement);
            let mut rights = Rights {
                roles: definition.roles.clone(),
                all: false,
                public: definition.public,
                objects: Vec::new(),
                schemas: Vec::new(),
                class: match grant.objtype {
                    pg_sys::ObjectType::OBJECT_TABLE | pg_sys::ObjectType::OBJECT_SEQUENCE => {
                        PG_CLASS.into()
                    }
                    _ => PG_PROC.into(),
                },
            };
            if grant.targtype == ACL_TARGET_ALL_IN_SCHEMA {
                let schema = |name: NonNull<pg_sys::Node>| {
                    address(pg_sys::ObjectType::OBJECT_SCHEMA, name.as_ptr())
                };
                let found: Result<Vec<_>, _> = nodes(grant.objects).map(schema).collect();
                rights.schemas = found.or_raise().iter().map(|a| a.object).collect();
            } else if grant.targtype == ACL_TARGET_OBJECT && granted(object(grant.objtype)) {
                rights.objects = definition.targets().or_raise();
            }
            Some(rights)
        }
    }
}

fn one(address: Result<Address, PgError>) -> Result<Vec<Address>, PgError> {
    address.map(|address| vec![address])
}

const ACCESS_SHARE: pg_sys::LOCKMODE = 1;

/// # Safety
/// `name` must be a name from the parser.
unsafe fn relation(name: *mut pg_sys::RangeVar) -> Result<Address, PgError> {
    // SAFETY: by the caller's promise; raises for an unknown name.
    let object = unsafe {
        catch_c(|| {
            raw::RangeVarGetRelidExtended(name, ACCESS_SHARE, 0, None, std::ptr::null_mut())
        })?
    };
    Ok(Address {
        class: PG_CLASS.into(),
        object,
    })
}

/// The table of OWNED BY, if one is named.
///
/// # Safety
/// `options` must be null or the options of a sequence from the parser.
unsafe fn sequence_owner(options: *mut pg_sys::List) -> Option<Result<Address, PgError>> {
    // SAFETY: OWNED BY has a list of strings, the last one a column's; NONE stands alone.
    unsafe {
        let owned = nodes(options)
            .map(|node| node.cast::<pg_sys::DefElem>().as_ref())
            .find(|element| CStr::from_ptr(element.defname) == c"owned_by")?;
        let names = pg_sys::list_copy(owned.arg.cast());
        if names.is_null() || (*names).length < 2 {
            return None;
        }
        let names = pg_sys::list_delete_last(names);
        let table = catch_c(|| raw::makeRangeVarFromNameList(names));
        Some(table.and_then(|table| relation(table)))
    }
}

/// # Safety
/// `names` must be a list of strings.
unsafe fn type_named(names: *mut pg_sys::List) -> Result<Address, PgError> {
    // SAFETY: by the caller's promise; raises for an unknown name.
    let object = unsafe {
        catch_c(|| {
            let name = raw::makeTypeNameFromNameList(names);
            raw::typenameTypeId(std::ptr::null_mut(), name)
        })?
    };
    Ok(Address {
        class: PG_TYPE.into(),
        object,
    })
}

/// # Safety
/// `object` must be what the parser makes for objects of this kind.
unsafe fn address(
    kind: pg_sys::ObjectType::Type,
    object: *mut pg_sys::Node,
) -> Result<Address, PgError> {
    // SAFETY: by the caller's promise; a relation that the look-up opened is closed again, its lock
    // kept.
    let found = unsafe {
        catch_c(|| {
            let mut relation: pg_sys::Relation = std::ptr::null_mut();
            let found =
                raw::get_object_address(kind, object, &raw mut relation, ACCESS_SHARE, false);
            if !relation.is_null() {
                raw::relation_close(relation, pg_sys::NoLock as pg_sys::LOCKMODE);
            }
            found
        })?
    };
    Ok(Address {
        class: found.classId,
        object: found.objectId,
    })
}

/// The object of an ALTER, which has a relation's name or an object of another kind.
///
/// # Safety
/// Both must be as the parser left them.
unsafe fn named(
    kind: pg_sys::ObjectType::Type,
    name: *mut pg_sys::RangeVar,
    object: *mut pg_sys::Node,
) -> Result<Address, PgError> {
    use pg_sys::ObjectType::{OBJECT_DOMAIN, OBJECT_DOMCONSTRAINT, OBJECT_TYPE};
    // SAFETY: by the caller's promise; an ALTER has a type's name as a list of strings.
    unsafe {
        match kind {
            _ if !name.is_null() => relation(name),
            OBJECT_TYPE | OBJECT_DOMAIN | OBJECT_DOMCONSTRAINT => type_named(object.cast()),
            _ => address(kind, object),
        }
    }
}
