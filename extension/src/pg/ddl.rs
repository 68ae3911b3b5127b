//! Statements of a DEPLOY transaction: what each of them asks for, as parsed, and which objects it is about.
//!
//! Nothing is decided here: `api/deploy_rules.rs` says what is allowed.
use std::ffi::{c_char, CStr};
use std::ptr::NonNull;

use pgrx::pg_sys;
use pgrx::pg_sys::NodeTag::*;

use super::ddl_kinds::{alteration, commented, dropped, granted, moved, owned, renamed};
use super::error::{catch_c, OrRaise, PgError};
use super::inspect::inspect_expression;
use super::level::Level;
use super::spi::Plan;
use super::statement::{nodes, own_text, parse};

mod raw {
    use super::pg_sys;
    extern "C-unwind" {
        pub fn get_object_address(
            kind: pg_sys::ObjectType::Type,
            object: *mut pg_sys::Node,
            relation: *mut pg_sys::Relation,
            lock: pg_sys::LOCKMODE,
            missing_ok: bool,
        ) -> pg_sys::ObjectAddress;
        pub fn relation_close(relation: pg_sys::Relation, lock: pg_sys::LOCKMODE);
        pub fn RangeVarGetRelidExtended(
            name: *const pg_sys::RangeVar,
            lock: pg_sys::LOCKMODE,
            flags: u32,
            callback: *const std::ffi::c_void,
            argument: *mut std::ffi::c_void,
        ) -> pg_sys::Oid;
        pub fn makeTypeNameFromNameList(names: *mut pg_sys::List) -> *mut pg_sys::TypeName;
        pub fn typenameTypeId(
            state: *mut pg_sys::ParseState,
            name: *const pg_sys::TypeName,
        ) -> pg_sys::Oid;
    }
}

/// Kinds of statements that may be allowed; everything else is `Other`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    CreateTable,
    AlterTable,
    CreateIndex,
    CreateView,
    CreateFunction,
    AlterFunction,
    CreateSchema,
    CreatePolicy,
    AlterPolicy,
    CreateType,
    AddEnumValue,
    Rename,
    SetSchema,
    SetOwner,
    Drop,
    Grant,
    Comment,
    Other,
}

/// A part of a statement that the rules look at.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Clause {
    /// IF EXISTS, IF NOT EXISTS.
    IfExists,
    Cascade,
    Temporary,
    Unlogged,
    Tablespace,
    Inherits,
    Partition,
    OfType,
    Like,
    AccessMethod(String),
    Concurrently,
    /// A constraint made of an index that is there already.
    UsingIndex,
    /// Of a function; empty when it is not said.
    Language(String),
    /// A statement inside CREATE SCHEMA.
    SchemaElement,
    /// The kind of object of a DROP, ALTER … RENAME and the like that is not one of ours.
    OtherObject,
    /// A part of ALTER TABLE, as it is written.
    Alteration(&'static str),
    /// A part of ALTER TABLE that is not allowed; empty when it has no short name.
    OtherAlteration(&'static str),
    /// GRANT … ON ALL TABLES IN SCHEMA.
    AllInSchema,
    /// GRANTED BY.
    Grantor,
    /// CURRENT_ROLE, CURRENT_USER, SESSION_USER.
    RoleOfSession,
    /// ALTER TYPE … RENAME VALUE.
    RenameValue,
}

/// One statement; the parse tree lives in the memory context in which [`parse_definitions`] was called.
pub struct Definition<'s> {
    pub text: &'s str,
    /// Its command tag.
    pub command: String,
    pub kind: Kind,
    pub clauses: Vec<Clause>,
    /// Names of roles that a GRANT, REVOKE, OWNER TO or policy is about, without PUBLIC.
    pub roles: Vec<String>,
    /// PUBLIC is among them.
    pub public: bool,
    statement: NonNull<pg_sys::Node>,
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

/// The statements of a text. Errors: those of the parser.
pub fn parse_definitions(sql: &str) -> Result<Vec<Definition<'_>>, PgError> {
    let statements = parse(sql)?;
    // SAFETY: from the parser.
    Ok(statements
        .iter()
        .map(|raw| unsafe { Definition::read(own_text(sql, raw).trim(), raw) })
        .collect())
}

impl<'s> Definition<'s> {
    /// # Safety
    /// `raw` must come from the parser.
    unsafe fn read(text: &'s str, raw: &NonNull<pg_sys::RawStmt>) -> Self {
        // SAFETY: a RawStmt holds a statement.
        unsafe {
            let statement =
                NonNull::new(raw.as_ref().stmt).expect("the parser makes no empty statement");
            Self::of(text, statement)
        }
    }

    /// # Safety
    /// `statement` must be a statement from the parser, not analysed or run yet.
    unsafe fn of(text: &'s str, statement: NonNull<pg_sys::Node>) -> Self {
        // SAFETY: by the caller's promise; command tags are static strings.
        unsafe {
            let tag = pg_sys::GetCommandTagName(pg_sys::CreateCommandTag(statement.as_ptr()));
            let mut definition = Definition {
                text,
                command: CStr::from_ptr(tag).to_string_lossy().into_owned(),
                kind: Kind::Other,
                clauses: Vec::new(),
                roles: Vec::new(),
                public: false,
                statement,
            };
            definition.kind = definition.describe();
            definition
        }
    }

    /// Runs it as the current role. Queries inside it pass the hooks as those of any other statement do.
    pub fn run(&self) -> Result<(), PgError> {
        Plan::prepare(self.text, &[])?.run(&[])?;
        Ok(())
    }

    fn has(&mut self, clause: Clause, present: bool) {
        if present && !self.clauses.contains(&clause) {
            self.clauses.push(clause);
        }
    }

    fn at<T>(&self) -> &'static T {
        // SAFETY: called with the structure that the node's tag names; nodes live longer than self, and are not changed.
        unsafe { self.statement.cast::<T>().as_ref() }
    }

    /// Notes the clauses; the kind is `Other` for what has no rules.
    ///
    /// # Safety
    /// The statement must be as the parser left it.
    unsafe fn describe(&mut self) -> Kind {
        // SAFETY: each structure is the one that the tag names, as in PostgreSQL's own switch over statements.
        unsafe {
            match self.statement.as_ref().type_ {
                T_CreateStmt => self.create_table(),
                T_AlterTableStmt => self.alter_table(),
                T_IndexStmt => self.create_index(),
                T_ViewStmt => {
                    let s = self.at::<pg_sys::ViewStmt>();
                    self.persistence(s.view);
                    Kind::CreateView
                }
                T_CreateFunctionStmt => {
                    let s = self.at::<pg_sys::CreateFunctionStmt>();
                    let language = option(s.options, c"language").unwrap_or_default();
                    // CREATE FUNCTION … RETURN: written in SQL without saying so.
                    let language = if language.is_empty() && !s.sql_body.is_null() {
                        "sql".into()
                    } else {
                        language
                    };
                    self.has(Clause::Language(language), true);
                    Kind::CreateFunction
                }
                T_AlterFunctionStmt => Kind::AlterFunction,
                T_CreateSchemaStmt => {
                    let s = self.at::<pg_sys::CreateSchemaStmt>();
                    self.has(Clause::IfExists, s.if_not_exists);
                    self.has(Clause::SchemaElement, !s.schemaElts.is_null());
                    self.role(s.authrole);
                    Kind::CreateSchema
                }
                T_CreatePolicyStmt => {
                    self.all_roles(self.at::<pg_sys::CreatePolicyStmt>().roles);
                    Kind::CreatePolicy
                }
                T_AlterPolicyStmt => {
                    self.all_roles(self.at::<pg_sys::AlterPolicyStmt>().roles);
                    Kind::AlterPolicy
                }
                T_CompositeTypeStmt | T_CreateEnumStmt | T_CreateDomainStmt => Kind::CreateType,
                T_AlterEnumStmt => {
                    let s = self.at::<pg_sys::AlterEnumStmt>();
                    self.has(Clause::RenameValue, !s.oldVal.is_null());
                    self.has(Clause::IfExists, s.skipIfNewValExists);
                    Kind::AddEnumValue
                }
                T_RenameStmt => {
                    let s = self.at::<pg_sys::RenameStmt>();
                    self.has(Clause::IfExists, s.missing_ok);
                    self.has(
                        Clause::Cascade,
                        s.behavior == pg_sys::DropBehavior::DROP_CASCADE,
                    );
                    let column_of_table = s.relationType == pg_sys::ObjectType::OBJECT_TABLE;
                    let column = s.renameType == pg_sys::ObjectType::OBJECT_COLUMN;
                    let known = (column && column_of_table) || renamed(s.renameType);
                    self.has(Clause::OtherObject, !known);
                    Kind::Rename
                }
                T_AlterObjectSchemaStmt => {
                    let s = self.at::<pg_sys::AlterObjectSchemaStmt>();
                    self.has(Clause::IfExists, s.missing_ok);
                    self.has(Clause::OtherObject, !moved(s.objectType));
                    Kind::SetSchema
                }
                T_AlterOwnerStmt => {
                    let s = self.at::<pg_sys::AlterOwnerStmt>();
                    self.has(Clause::OtherObject, !owned(s.objectType));
                    self.role(s.newowner);
                    Kind::SetOwner
                }
                T_DropStmt => {
                    let s = self.at::<pg_sys::DropStmt>();
                    self.has(Clause::IfExists, s.missing_ok);
                    self.has(
                        Clause::Cascade,
                        s.behavior == pg_sys::DropBehavior::DROP_CASCADE,
                    );
                    self.has(Clause::Concurrently, s.concurrent);
                    self.has(Clause::OtherObject, !dropped(s.removeType));
                    Kind::Drop
                }
                T_GrantStmt => self.grant(),
                T_CommentStmt => {
                    let s = self.at::<pg_sys::CommentStmt>();
                    self.has(Clause::OtherObject, !commented(s.objtype));
                    Kind::Comment
                }
                _ => Kind::Other,
            }
        }
    }

    unsafe fn create_table(&mut self) -> Kind {
        let s = self.at::<pg_sys::CreateStmt>();
        // SAFETY: lists of nodes, whose tags say which structure follows.
        unsafe {
            self.persistence(s.relation);
            self.has(Clause::IfExists, s.if_not_exists);
            self.has(Clause::Tablespace, !s.tablespacename.is_null());
            let partition = !s.partbound.is_null() || !s.partspec.is_null();
            self.has(Clause::Partition, partition);
            self.has(Clause::Inherits, !s.inhRelations.is_null() && !partition);
            self.has(Clause::OfType, !s.ofTypename.is_null());
            if let Some(method) = text(s.accessMethod).filter(|m| m != "heap") {
                self.has(Clause::AccessMethod(method), true);
            }
            for element in nodes(s.tableElts) {
                match element.as_ref().type_ {
                    T_TableLikeClause => self.has(Clause::Like, true),
                    T_ColumnDef => self.column(element.cast().as_ptr()),
                    T_Constraint => self.constraint(element.cast().as_ptr()),
                    _ => {}
                }
            }
        }
        Kind::CreateTable
    }

    unsafe fn column(&mut self, column: *mut pg_sys::ColumnDef) {
        // SAFETY: a column definition; its constraints are a list of such.
        unsafe {
            for constraint in nodes((*column).constraints) {
                if constraint.as_ref().type_ == T_Constraint {
                    self.constraint(constraint.cast().as_ptr());
                }
            }
        }
    }

    unsafe fn constraint(&mut self, constraint: *mut pg_sys::Constraint) {
        // SAFETY: by the caller's promise, a constraint.
        unsafe {
            self.has(Clause::Tablespace, !(*constraint).indexspace.is_null());
            self.has(Clause::UsingIndex, !(*constraint).indexname.is_null());
        }
    }

    unsafe fn alter_table(&mut self) -> Kind {
        let s = self.at::<pg_sys::AlterTableStmt>();
        self.has(Clause::IfExists, s.missing_ok);
        self.has(
            Clause::OtherObject,
            s.objtype != pg_sys::ObjectType::OBJECT_TABLE,
        );
        // SAFETY: a list of AlterTableCmd.
        unsafe {
            for command in nodes(s.cmds) {
                let command = command.cast::<pg_sys::AlterTableCmd>().as_ref();
                self.has(Clause::IfExists, command.missing_ok);
                self.has(
                    Clause::Cascade,
                    command.behavior == pg_sys::DropBehavior::DROP_CASCADE,
                );
                let (name, allowed) = alteration(command.subtype);
                let clause = if allowed {
                    Clause::Alteration(name)
                } else {
                    Clause::OtherAlteration(name)
                };
                self.has(clause, true);
                match NonNull::new(command.def) {
                    Some(def) if def.as_ref().type_ == T_ColumnDef => {
                        self.column(def.cast().as_ptr())
                    }
                    Some(def) if def.as_ref().type_ == T_Constraint => {
                        self.constraint(def.cast().as_ptr())
                    }
                    _ => {}
                }
                if command.subtype == pg_sys::AlterTableType::AT_ChangeOwner {
                    self.role(command.newowner);
                }
            }
        }
        Kind::AlterTable
    }

    unsafe fn create_index(&mut self) -> Kind {
        let s = self.at::<pg_sys::IndexStmt>();
        self.has(Clause::IfExists, s.if_not_exists);
        self.has(Clause::Concurrently, s.concurrent);
        self.has(Clause::Tablespace, !s.tableSpace.is_null());
        // SAFETY: null or a C string.
        if let Some(method) = unsafe { text(s.accessMethod) } {
            const KNOWN: [&str; 6] = ["btree", "hash", "gin", "gist", "spgist", "brin"];
            if !KNOWN.contains(&method.as_str()) {
                self.has(Clause::AccessMethod(method), true);
            }
        }
        Kind::CreateIndex
    }

    unsafe fn grant(&mut self) -> Kind {
        let s = self.at::<pg_sys::GrantStmt>();
        let one_by_one = s.targtype == pg_sys::GrantTargetType::ACL_TARGET_OBJECT;
        self.has(Clause::AllInSchema, !one_by_one);
        self.has(Clause::OtherObject, !granted(s.objtype));
        self.has(Clause::Grantor, !s.grantor.is_null());
        self.has(
            Clause::Cascade,
            s.behavior == pg_sys::DropBehavior::DROP_CASCADE,
        );
        // SAFETY: a list of RoleSpec.
        unsafe { self.all_roles(s.grantees) };
        Kind::Grant
    }

    /// # Safety
    /// `name` must be a name from the parser.
    unsafe fn persistence(&mut self, name: *mut pg_sys::RangeVar) {
        // SAFETY: by the caller's promise.
        let persistence = unsafe { (*name).relpersistence } as u8;
        self.has(Clause::Temporary, persistence == b't');
        self.has(Clause::Unlogged, persistence == b'u');
    }

    /// # Safety
    /// `roles` must be null or a list of RoleSpec.
    unsafe fn all_roles(&mut self, roles: *mut pg_sys::List) {
        // SAFETY: by the caller's promise.
        unsafe { nodes(roles).for_each(|role| self.role(role.cast().as_ptr())) }
    }

    /// # Safety
    /// `role` must be null or a RoleSpec.
    unsafe fn role(&mut self, role: *mut pg_sys::RoleSpec) {
        use pg_sys::RoleSpecType::{ROLESPEC_CSTRING, ROLESPEC_PUBLIC};
        // SAFETY: by the caller's promise; a role's name is a C string.
        unsafe {
            match role.as_ref() {
                Some(role) if role.roletype == ROLESPEC_CSTRING => {
                    self.roles.extend(text(role.rolename))
                }
                Some(role) if role.roletype == ROLESPEC_PUBLIC => self.public = true,
                Some(role) => {
                    self.has(Clause::RoleOfSession, true);
                    self.roles.extend(text(pg_sys::get_rolespec_name(role)));
                }
                None => {}
            }
        }
    }

    /// What ALTER COLUMN TYPE … USING computes from the rows, as queries; before it runs. Errors: those of analysis.
    pub fn conversions(&self) -> Result<Vec<Level>, PgError> {
        // SAFETY: the tags say which structures follow.
        unsafe {
            if self.statement.as_ref().type_ != T_AlterTableStmt {
                return Ok(Vec::new());
            }
            let s = self.at::<pg_sys::AlterTableStmt>();
            let mut levels = Vec::new();
            for command in nodes(s.cmds) {
                let command = command.cast::<pg_sys::AlterTableCmd>().as_ref();
                let Some(def) = NonNull::new(command.def) else {
                    continue;
                };
                if command.subtype == pg_sys::AlterTableType::AT_AlterColumnType {
                    let expression = def.cast::<pg_sys::ColumnDef>().as_ref().raw_default;
                    if !expression.is_null() {
                        levels.extend(inspect_expression(expression, s.relation)?);
                    }
                }
            }
            Ok(levels)
        }
    }

    /// The existing objects that it changes or names, before it runs; none for a CREATE that names none. Relations are
    /// locked against being dropped. Errors: those of looking them up.
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

/// Whose rights a GRANT or REVOKE changes, and on what.
pub struct Rights {
    pub roles: Vec<String>,
    pub public: bool,
    pub objects: Vec<Address>,
    /// Of ALL … IN SCHEMA, with the catalog of the objects meant.
    pub schemas: Vec<pg_sys::Oid>,
    pub class: pg_sys::Oid,
}

impl Rights {
    /// None for any other statement, and for kinds of objects that no DEPLOY transaction makes. Raises what looking the
    /// objects up raises.
    ///
    /// # Safety
    /// `node` must be a utility statement about to run.
    pub(super) unsafe fn of(node: *mut pg_sys::Node) -> Option<Rights> {
        use pg_sys::GrantTargetType::{ACL_TARGET_ALL_IN_SCHEMA, ACL_TARGET_OBJECT};
        let statement = NonNull::new(node)?;
        // SAFETY: the tag says which structure follows; ALL … IN SCHEMA lists names of schemas.
        unsafe {
            if statement.as_ref().type_ != T_GrantStmt {
                return None;
            }
            let grant = statement.cast::<pg_sys::GrantStmt>().as_ref();
            let definition = Definition::of("", statement);
            let mut rights = Rights {
                roles: definition.roles.clone(),
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
            } else if grant.targtype == ACL_TARGET_OBJECT && granted(grant.objtype) {
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
    let none = std::ptr::null();
    // SAFETY: by the caller's promise; raises for an unknown name.
    let object = unsafe {
        catch_c(|| {
            raw::RangeVarGetRelidExtended(name, ACCESS_SHARE, 0, none, std::ptr::null_mut())
        })?
    };
    Ok(Address {
        class: PG_CLASS.into(),
        object,
    })
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
    // SAFETY: by the caller's promise; a relation that the look-up opened is closed again, its lock kept.
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
    // SAFETY: by the caller's promise.
    unsafe {
        if name.is_null() {
            address(kind, object)
        } else {
            relation(name)
        }
    }
}

/// # Safety
/// `options` must be null or a list of DefElem; the option wanted has a string.
unsafe fn option(options: *mut pg_sys::List, name: &CStr) -> Option<String> {
    // SAFETY: by the caller's promise; `defGetString` takes any value, and makes a C string of it.
    unsafe {
        let found = nodes(options)
            .map(|node| node.cast::<pg_sys::DefElem>())
            .find(|element| CStr::from_ptr(element.as_ref().defname) == name)?;
        text(pg_sys::defGetString(found.as_ptr()))
    }
}

/// # Safety
/// `s` must be null or a C string.
unsafe fn text(s: *const c_char) -> Option<String> {
    // SAFETY: by the caller's promise.
    (!s.is_null()).then(|| unsafe { CStr::from_ptr(s) }.to_string_lossy().into_owned())
}
