// What `cargo make verbs-bindings` makes bindings.rs of.
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
