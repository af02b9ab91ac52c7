//! The functions, one file for each kind of object. Each converts what C passes, calls `softverbs`, and converts the result; nothing is
//! decided here that verbs decide.

pub(crate) mod ah;
pub(crate) mod channel;
pub(crate) mod cm;
pub(crate) mod context;
pub(crate) mod cq;
pub(crate) mod cq_ex;
pub(crate) mod device;
pub(crate) mod fork;
pub(crate) mod mr;
pub(crate) mod objects;
pub(crate) mod pd;
pub(crate) mod port;
pub(crate) mod qp;
pub(crate) mod qp_ex;
pub(crate) mod requests;
pub(crate) mod srq;
pub(crate) mod strings;
pub(crate) mod table;
