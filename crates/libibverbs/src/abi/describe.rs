//! Definitions that can also be listed, so that a test compares them with the headers.

/// A structure that may consist of zeros.
pub(crate) trait Zeroed: Copy {
    /// Zeros, as `calloc` gives them.
    fn zeroed() -> Self;
}

/// A structure as this library knows it.
#[cfg(test)]
#[derive(Debug)]
pub(crate) struct Layout {
    /// The type in C.
    pub(crate) name: &'static str,
    /// The size in octets.
    pub(crate) size: usize,
    /// The members that are compared: the path in C, the offset and the size.
    pub(crate) members: &'static [(&'static str, usize, usize)],
}

/// Defines structures. A field whose member in C has another path names it after `=`; an empty path is padding.
macro_rules! layouts {
    ($( $(#[$doc:meta])* $keyword:ident $name:ident { $( $field:ident $(= $path:literal)? : $ty:ty ),* $(,)? } )*) => {
        $(
            $(#[$doc])*
            #[repr(C)]
            #[derive(Clone, Copy)]
            pub(crate) struct $name { $( pub(crate) $field: $ty ),* }

            impl $crate::abi::describe::Zeroed for $name {
                fn zeroed() -> Self {
                    // SAFETY: the fields are integers, pointers, and structures of these, for which zeros are a value.
                    unsafe { core::mem::zeroed() }
                }
            }
        )*
        #[cfg(test)]
        pub(super) const LAYOUTS: &[$crate::abi::describe::Layout] = &[$(
            $crate::abi::describe::Layout {
                name: layouts!(@name $keyword $name),
                size: size_of::<$name>(),
                members: &[$( (
                    layouts!(@path $field $($path)?),
                    core::mem::offset_of!($name, $field),
                    size_of::<$ty>(),
                ) ),*],
            }
        ),*];
    };
    (@name record $name:ident) => { concat!("struct ", stringify!($name)) };
    (@name either $name:ident) => { concat!("union ", stringify!($name)) };
    (@path $field:ident $path:literal) => { $path };
    (@path $field:ident) => { stringify!($field) };
}

/// Defines numbers under their names in C.
macro_rules! constants {
    ($( $(#[$doc:meta])* $ty:ty { $( $name:ident = $value:expr ),* $(,)? } )*) => {
        $( $( pub(crate) const $name: $ty = $value; )* )*
        #[cfg(test)]
        pub(super) const CONSTANTS: &[(&str, i128)] = &[$( $( (stringify!($name), $name as i128), )* )*];
    };
}
