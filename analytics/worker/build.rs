//! How the worker is linked.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // A table of relocations without this option takes 5 MB of memory from the start to the end. It needs glibc 2.36.
    if std::env::var("CARGO_CFG_TARGET_ARCH").as_deref() == Ok("x86_64")
        && std::env::var("CARGO_CFG_TARGET_ENV").as_deref() == Ok("gnu")
    {
        println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
}
