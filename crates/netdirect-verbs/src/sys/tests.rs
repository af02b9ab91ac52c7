//! Layouts of the bindings against the installed headers, and the errors for libraries that are not installed.

use std::ffi::OsStr;
use std::fs;
use std::mem::{align_of, offset_of, size_of};
use std::path::Path;
use std::process::Command;

use super::bindings as c;
use super::library::Libraries;

/// Lines of a program in C that prints the layouts, and its expected output.
macro_rules! layouts {
    ($($kind:ident: $($field:ident),*;)*) => {
        [$((
            concat!(
                "printf(\"%zu %zu\", sizeof(struct ", stringify!($kind), "), _Alignof(struct ", stringify!($kind), "));",
                $("printf(\" %zu\", offsetof(struct ", stringify!($kind), ", ", stringify!($field), "));",)*
                "puts(\"\");"
            ),
            [size_of::<c::$kind>(), align_of::<c::$kind>(), $(offset_of!(c::$kind, $field),)*].map(|number| number.to_string()).join(" "),
        ),)*]
    };
}

/// Versions of rdma-core have added to the end of this structure, and the function that fills it writes its first version.
fn layout_that_grows() -> (&'static str, String) {
    let offsets = [
        offset_of!(c::ibv_port_attr, state),
        offset_of!(c::ibv_port_attr, max_msg_sz),
        offset_of!(c::ibv_port_attr, link_layer),
    ];
    (
        "printf(\"%zu %zu %zu\\n\", offsetof(struct ibv_port_attr, state), offsetof(struct ibv_port_attr, max_msg_sz), \
         offsetof(struct ibv_port_attr, link_layer));",
        offsets.map(|number| number.to_string()).join(" "),
    )
}

fn layouts() -> impl IntoIterator<Item = (&'static str, String)> {
    let fixed = layouts! {
        ibv_device_attr: fw_ver, max_mr_size, vendor_id, max_qp_wr, max_sge_rd, max_mw, max_srq_sge, phys_port_cnt;
        ibv_context: device, ops, cmd_fd, async_fd, num_comp_vectors;
        ibv_context_ops: alloc_mw, bind_mw, dealloc_mw, poll_cq, req_notify_cq, post_srq_recv, post_send, post_recv;
        ibv_device: node_type, transport_type, name;
        ibv_pd: context, handle;
        ibv_mr: context, pd, addr, length, lkey, rkey;
        ibv_mw: context, pd, rkey;
        ibv_cq: context, channel, cq_context, cqe;
        ibv_comp_channel: context, fd;
        ibv_srq: context, pd;
        ibv_srq_attr: max_wr, max_sge, srq_limit;
        ibv_qp: context, qp_context, pd, qp_num;
        ibv_qp_init_attr: qp_context, send_cq, recv_cq, srq, cap, qp_type, sq_sig_all;
        ibv_qp_attr: qp_state, qp_access_flags, cap, pkey_index, port_num;
        ibv_sge: addr, length, lkey;
        ibv_send_wr: wr_id, next, sg_list, num_sge, opcode, send_flags, wr;
        ibv_recv_wr: wr_id, next, sg_list, num_sge;
        ibv_mw_bind: wr_id, send_flags, bind_info;
        ibv_mw_bind_info: mr, addr, length, mw_access_flags;
        ibv_wc: wr_id, status, opcode, vendor_err, byte_len, qp_num, wc_flags;
        ibv_async_event: element, event_type;
        rdma_event_channel: fd;
        rdma_cm_id: verbs, channel, context, qp, route, ps, port_num;
        rdma_conn_param: private_data, private_data_len, responder_resources, initiator_depth, flow_control, retry_count,
            rnr_retry_count, srq, qp_num;
        rdma_cm_event: id, listen_id, event, status, param;
    };
    fixed.into_iter().chain([layout_that_grows()])
}

/// Compiles the program against the headers in `include`, or against those of the system, and compares its output.
fn compare(include: Option<&Path>) {
    let mut program = String::from(
        "#include <stddef.h>\n#include <stdio.h>\n#include <infiniband/verbs.h>\n#include <rdma/rdma_cma.h>\n\
         int main(void) {\n",
    );
    let mut wanted = String::new();
    for (line, layout) in layouts() {
        program += line;
        program.push('\n');
        wanted += &layout;
        wanted.push('\n');
    }
    program += "return 0; }\n";
    let name = format!(
        "netdirect-verbs-layouts-{}-{}",
        std::process::id(),
        include.is_some()
    );
    let source = std::env::temp_dir().join(name).with_extension("c");
    let binary = source.with_extension("");
    fs::write(&source, program).expect("a temporary file");
    let mut compiler = Command::new("cc");
    if let Some(include) = include {
        compiler.arg("-isystem").arg(include);
    }
    let compiled = compiler
        .arg("-o")
        .arg(&binary)
        .arg(&source)
        .output()
        .expect("cc runs");
    let errors = String::from_utf8_lossy(&compiled.stderr).into_owned();
    assert!(compiled.status.success(), "{errors}");
    let printed = Command::new(&binary)
        .output()
        .expect("the program runs")
        .stdout;
    let (_, _) = (fs::remove_file(&source), fs::remove_file(&binary));
    assert_eq!(String::from_utf8_lossy(&printed), wanted);
}

fn has_compiler() -> bool {
    Command::new("cc").arg("--version").output().is_ok()
}

/// Also for other versions of rdma-core: `VERBS_HEADERS` may name folders that hold `infiniband` and `rdma`, with colons
/// between them.
#[test]
fn the_bindings_have_the_layouts_of_the_headers() {
    if !has_compiler() {
        eprintln!("skipped: there is no C compiler");
        return;
    }
    if Path::new("/usr/include/rdma/rdma_cma.h").is_file() {
        compare(None);
    } else {
        eprintln!("skipped: librdmacm-dev is not installed");
    }
    for folder in std::env::split_paths(&std::env::var_os("VERBS_HEADERS").unwrap_or_default()) {
        if folder.as_os_str() != OsStr::new("") {
            compare(Some(&folder));
        }
    }
}

#[test]
fn a_library_that_is_not_there_is_told_with_its_package() {
    match Libraries::load() {
        Ok(libraries) => assert!(format!("{libraries:?}").contains("Libraries")),
        Err(unavailable) => {
            let what = unavailable.to_string();
            let names = what.contains("libibverbs1") || what.contains("librdmacm1");
            assert!(names && what.contains("install"), "{what}");
        }
    }
}
