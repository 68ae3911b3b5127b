//! The parsed statements of a DEPLOY transaction, and the objects that each of them names.
//!
//! Nothing is decided here: `crates/rules` says what is allowed.
use std::ffi::{c_char, CStr};
use std::ptr::NonNull;

pub use chainify_rules::deploy::{Clause, Kind};
use chainify_rules::objects::{
    altered, commented, dropped, granted, moved, owned, renamed, ATTRIBUTE, IDENTITY,
};
use pgrx::pg_sys;
use pgrx::pg_sys::NodeTag::*;

use crate::base::error::PgError;
use crate::base::lists::nodes;
use crate::base::major::{sets_storage, unknown_constraint};
use crate::ddl::inspect::inspect_expression;
use crate::ddl::kinds::{object, part};
use crate::describe::query_level::Level;
use crate::run::client_plan::ClientPlan;
use crate::tree::parse::{own_text, parse};

/// One statement; the parse tree lives in the memory context in which [`parse_definitions`] was
/// called.
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
    pub(crate) statement: NonNull<pg_sys::Node>,
}

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
    pub(crate) unsafe fn of(text: &'s str, statement: NonNull<pg_sys::Node>) -> Self {
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

    /// Runs it as the current role. Queries inside it pass the hooks as those of any other
    /// statement do.
    pub fn run(&self) -> Result<(), PgError> {
        ClientPlan::prepare(self.text, &[])?.run(&[])?;
        Ok(())
    }

    fn has(&mut self, clause: Clause, present: bool) {
        if present && !self.clauses.contains(&clause) {
            self.clauses.push(clause);
        }
    }

    /// The statement as the structure that its tag names.
    ///
    /// # Safety
    /// `T` must be that structure. The memory context that the parser made the statement in must
    /// outlive `'t`, and nobody may change the statement meanwhile.
    pub(crate) unsafe fn at<'t, T>(&self) -> &'t T {
        // SAFETY: by the caller's promise.
        unsafe { self.statement.cast::<T>().as_ref() }
    }

    /// Notes the clauses; the kind is `Other` for what has no rules.
    ///
    /// # Safety
    /// The statement must be as the parser left it.
    unsafe fn describe(&mut self) -> Kind {
        // SAFETY: each structure is the one that the tag names, as in PostgreSQL's own switch over
        // statements.
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
                    self.has(Clause::FromCurrent, sets_from_current(s.options));
                    Kind::CreateFunction
                }
                T_AlterFunctionStmt => {
                    let s = self.at::<pg_sys::AlterFunctionStmt>();
                    self.has(Clause::FromCurrent, sets_from_current(s.actions));
                    Kind::AlterFunction
                }
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
                T_AlterDomainStmt => self.alter_domain(),
                T_CreateSeqStmt => {
                    let s = self.at::<pg_sys::CreateSeqStmt>();
                    self.persistence(s.sequence);
                    self.has(Clause::IfExists, s.if_not_exists);
                    Kind::CreateSequence
                }
                T_AlterSeqStmt => {
                    let s = self.at::<pg_sys::AlterSeqStmt>();
                    self.has(Clause::IfExists, s.missing_ok);
                    Kind::AlterSequence
                }
                T_RenameStmt => {
                    let s = self.at::<pg_sys::RenameStmt>();
                    self.has(Clause::IfExists, s.missing_ok);
                    let column_of_table = s.relationType == pg_sys::ObjectType::OBJECT_TABLE;
                    let column = s.renameType == pg_sys::ObjectType::OBJECT_COLUMN;
                    let known = (column && column_of_table) || renamed(object(s.renameType));
                    self.has(unknown_rename(s.renameType), !known);
                    Kind::Rename
                }
                T_AlterObjectSchemaStmt => {
                    let s = self.at::<pg_sys::AlterObjectSchemaStmt>();
                    self.has(Clause::IfExists, s.missing_ok);
                    self.has(Clause::OtherObject, !moved(object(s.objectType)));
                    Kind::SetSchema
                }
                T_AlterOwnerStmt => {
                    let s = self.at::<pg_sys::AlterOwnerStmt>();
                    self.has(Clause::OtherObject, !owned(object(s.objectType)));
                    self.role(s.newowner);
                    Kind::SetOwner
                }
                T_DropStmt => {
                    let s = self.at::<pg_sys::DropStmt>();
                    self.has(Clause::IfExists, s.missing_ok);
                    self.has(Clause::Concurrently, s.concurrent);
                    self.has(Clause::OtherObject, !dropped(object(s.removeType)));
                    Kind::Drop
                }
                T_GrantStmt => self.grant(),
                T_CommentStmt => {
                    let s = self.at::<pg_sys::CommentStmt>();
                    self.has(Clause::OtherObject, !commented(object(s.objtype)));
                    Kind::Comment
                }
                _ => Kind::Other,
            }
        }
    }

    unsafe fn create_table(&mut self) -> Kind {
        // SAFETY: the caller has seen the tag.
        let s = unsafe { self.at::<pg_sys::CreateStmt>() };
        // SAFETY: lists of nodes, whose tags say which structure follows.
        unsafe {
            self.persistence(s.relation);
            self.has(Clause::IfExists, s.if_not_exists);
            self.has(Clause::Tablespace, !s.tablespacename.is_null());
            let inherits = !s.inhRelations.is_null() && s.partbound.is_null();
            self.has(Clause::Inherits, inherits);
            self.has(Clause::OfType, !s.ofTypename.is_null());
            if let Some(method) = text(s.accessMethod) {
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
            self.has(
                Clause::OtherAlteration("SET STORAGE"),
                sets_storage(&*column),
            );
            let compression = !(*column).compression.is_null();
            self.has(Clause::OtherAlteration("SET COMPRESSION"), compression);
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
            if let Some(clause) = unknown_constraint(&*constraint) {
                self.has(Clause::OtherAlteration(clause), true);
            }
        }
    }

    unsafe fn alter_table(&mut self) -> Kind {
        // SAFETY: the caller has seen the tag.
        let s = unsafe { self.at::<pg_sys::AlterTableStmt>() };
        self.has(Clause::IfExists, s.missing_ok);
        let composite = s.objtype == pg_sys::ObjectType::OBJECT_TYPE;
        self.has(Clause::OtherAlteration(ATTRIBUTE), composite);
        self.has(
            Clause::OtherObject,
            !(composite || altered(object(s.objtype))),
        );
        // SAFETY: a list of AlterTableCmd.
        unsafe {
            for command in nodes(s.cmds) {
                let command = command.cast::<pg_sys::AlterTableCmd>().as_ref();
                self.has(Clause::IfExists, command.missing_ok);
                let part = part(command.subtype);
                let clause = if part.follows(object(s.objtype)) {
                    Clause::Alteration(part.name())
                } else {
                    Clause::OtherAlteration(part.name())
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

    unsafe fn alter_domain(&mut self) -> Kind {
        // SAFETY: the caller has seen the tag.
        let s = unsafe { self.at::<pg_sys::AlterDomainStmt>() };
        self.has(Clause::IfExists, s.missing_ok);
        // SAFETY: what is added is a constraint.
        let valid = unsafe {
            s.def
                .cast::<pg_sys::Constraint>()
                .as_ref()
                .is_some_and(|c| c.type_ == T_Constraint && !c.skip_validation)
        };
        let checks = match s.subtype as u8 {
            b'O' | b'V' => true, // SET NOT NULL, VALIDATE CONSTRAINT
            b'C' => valid,
            _ => false,
        };
        self.has(Clause::ChecksValues, checks);
        Kind::AlterDomain
    }

    /// Whether it may change what sequences give.
    pub fn changes_sequences(&self) -> bool {
        self.kind == Kind::AlterSequence || self.clauses.contains(&Clause::Alteration(IDENTITY))
    }

    /// Names of the constraints that it changes, drops or comments on.
    pub fn constraints(&self) -> Vec<String> {
        use pg_sys::AlterTableType::{AT_DropConstraint, AT_ValidateConstraint};
        use pg_sys::ObjectType::{OBJECT_DOMCONSTRAINT, OBJECT_TABCONSTRAINT};
        // SAFETY: the tags say which structures follow; names are C strings. That of a comment is
        // the last of a list of strings.
        unsafe {
            match self.statement.as_ref().type_ {
                T_AlterTableStmt => nodes(self.at::<pg_sys::AlterTableStmt>().cmds)
                    .map(|command| command.cast::<pg_sys::AlterTableCmd>().as_ref())
                    .filter(|c| [AT_DropConstraint, AT_ValidateConstraint].contains(&c.subtype))
                    .filter_map(|command| text(command.name))
                    .collect(),
                T_AlterDomainStmt => text(self.at::<pg_sys::AlterDomainStmt>().name)
                    .into_iter()
                    .collect(),
                T_RenameStmt => {
                    let s = self.at::<pg_sys::RenameStmt>();
                    let kinds = [OBJECT_TABCONSTRAINT, OBJECT_DOMCONSTRAINT];
                    text(s.subname)
                        .filter(|_| kinds.contains(&s.renameType))
                        .into_iter()
                        .collect()
                }
                T_CommentStmt => {
                    let s = self.at::<pg_sys::CommentStmt>();
                    let of_table = s.objtype == OBJECT_TABCONSTRAINT;
                    let name = nodes(s.object.cast()).filter(|_| of_table).last();
                    name.and_then(|name| text((*name.as_ptr().cast::<pg_sys::String>()).sval))
                        .into_iter()
                        .collect()
                }
                _ => Vec::new(),
            }
        }
    }

    unsafe fn create_index(&mut self) -> Kind {
        // SAFETY: the caller has seen the tag.
        let s = unsafe { self.at::<pg_sys::IndexStmt>() };
        self.has(Clause::IfExists, s.if_not_exists);
        self.has(Clause::Concurrently, s.concurrent);
        self.has(Clause::Tablespace, !s.tableSpace.is_null());
        // SAFETY: null or a C string.
        if let Some(method) = unsafe { text(s.accessMethod) } {
            self.has(Clause::IndexMethod(method), true);
        }
        Kind::CreateIndex
    }

    unsafe fn grant(&mut self) -> Kind {
        // SAFETY: the caller has seen the tag.
        let s = unsafe { self.at::<pg_sys::GrantStmt>() };
        let one_by_one = s.targtype == pg_sys::GrantTargetType::ACL_TARGET_OBJECT;
        self.has(Clause::AllInSchema, !one_by_one);
        self.has(Clause::OtherObject, !granted(object(s.objtype)));
        self.has(Clause::Grantor, !s.grantor.is_null());
        self.has(
            Clause::CascadeRights,
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

    /// The expressions that ALTER COLUMN TYPE … USING computes from the rows, as queries; before it
    /// runs. Errors: those of analysis.
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
}

fn unknown_rename(kind: pg_sys::ObjectType::Type) -> Clause {
    match kind {
        pg_sys::ObjectType::OBJECT_ATTRIBUTE => Clause::OtherAlteration(ATTRIBUTE),
        pg_sys::ObjectType::OBJECT_SCHEMA => Clause::OtherAlteration("RENAME of a schema"),
        pg_sys::ObjectType::OBJECT_COLUMN => Clause::OtherAlteration("RENAME of a view's column"),
        _ => Clause::OtherObject,
    }
}

/// # Safety
/// `options` must be null or the list of DefElem of a function.
unsafe fn sets_from_current(options: *mut pg_sys::List) -> bool {
    // SAFETY: by the caller's promise; `set` has a VariableSetStmt.
    unsafe {
        nodes(options).any(|node| {
            let element = node.cast::<pg_sys::DefElem>();
            let element = element.as_ref();
            CStr::from_ptr(element.defname) == c"set"
                && (*element.arg.cast::<pg_sys::VariableSetStmt>()).kind
                    == pg_sys::VariableSetKind::VAR_SET_CURRENT
        })
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
pub(crate) unsafe fn text(s: *const c_char) -> Option<String> {
    // SAFETY: by the caller's promise.
    (!s.is_null()).then(|| unsafe { CStr::from_ptr(s) }.to_string_lossy().into_owned())
}
