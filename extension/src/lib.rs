use pgrx::prelude::*;

pg_module_magic!();
