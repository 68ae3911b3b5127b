//! PostgreSQL's C functions, called without pgrx's error boundary.
//!
//! A wrong declaration would show only when the call goes wrong. So each declaration made with
//! [`c_functions!`] is compared with the one that pgrx read from PostgreSQL's headers: the compiler
//! refuses a missing function, or one with other arguments. Functions without a binding in pgrx are
//! in plain `extern` blocks, and are compared by hand for every major.

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
