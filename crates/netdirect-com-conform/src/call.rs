//! Calls by the tables of objects.

/// Calls a function of an object's table, or of a table within it.
macro_rules! call {
    ($object:expr, $($path:ident).+ ($($arg:expr),* $(,)?)) => {{
        let object = $object;
        let function = object.table().$($path).+;
        let this = object.this();
        // SAFETY: the function is the object's own. Each check passes arguments of the method: values, memory that outlives the call or, for
        // a request, the request; or a value for which ND2 has a status.
        unsafe { function(this, $($arg),*) }
    }};
}

pub(crate) use call;
