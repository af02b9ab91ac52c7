//! Which function has which name and version.
//!
//! A version is part of a name in assembly alone. So each name is a jump to its function, in assembly that also gives the version.
//! The functions of the fast path are not reached through names, but through the context's table, and pay no jump.

/// Exports functions under versions: `default` is what new programs are linked with, `also` serves those that ask for this version.
macro_rules! export {
    ($($which:ident $node:literal { $( $name:ident = $function:path ),* $(,)? })*) => {
        $($( core::arch::global_asm!(
            concat!(".pushsection .text.softnd.", stringify!($name), ",\"ax\",@progbits"),
            concat!(".globl \"", stringify!($name), "/", $node, "\""),
            concat!(".type \"", stringify!($name), "/", $node, "\",@function"),
            concat!("\"", stringify!($name), "/", $node, "\":"),
            "jmp {function}",
            concat!(".size \"", stringify!($name), "/", $node, "\", . - \"", stringify!($name), "/", $node, "\""),
            concat!(
                ".symver \"", stringify!($name), "/", $node, "\", ",
                stringify!($name), export!(@at $which), $node, ", remove"
            ),
            ".popsection",
            function = sym $function,
        ); )*)*
    };
    (@at default) => { "@@" };
    (@at also) => { "@" };
}

mod cm;
mod drivers;
mod sockets;
mod verbs;
