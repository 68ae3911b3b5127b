//! PostgreSQL's functions without pgrx's boundary, as its headers declare them.
//!
//! A declaration by hand that a header does not bear out would be noticed by nobody before the call
//! goes wrong. So each one made with [`c_functions!`] is compared with what pgrx read from the
//! headers of the major that is built for. The compiler tells of a function that is not there, or
//! takes something else. Functions that pgrx leaves out of its bindings are in plain `extern`
//! blocks, and are compared by hand for every major.

macro_rules! c_functions {
    ($($visible:vis fn $name:ident($($argument:ident: $of:ty),* $(,)?) $(-> $result:ty)?;)*) => {
        extern "C-unwind" {
            $($visible fn $name($($argument: $of),*) $(-> $result)?;)*
        }
        const _: () = {
            $(let _: unsafe fn($($of),*) $(-> $result)? = pgrx::pg_sys::$name;)*
        };
    };
}
