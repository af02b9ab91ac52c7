//! What `libsoftnd.so` writes on standard error, in a program whose standard error is a pipe.

use std::process::Command;

use softnd_tests::nd;

/// Standard error of `nd conform` for one check of the library, with a variable of the library in the environment.
fn said(variable: &str, value: &str) -> String {
    nd::build_libraries();
    let library = nd::binary().with_file_name("libsoftnd.so");
    let output = Command::new(nd::binary())
        .args(["conform", "--only", "ADPT-020"])
        .arg(format!("com://{}", library.display()))
        .env(variable, value)
        .env_remove("NO_COLOR")
        .env_remove("RUST_LOG")
        .output()
        .expect("nd starts");
    String::from_utf8(output.stderr).expect("text")
}

#[test]
fn its_log_has_no_colours_in_a_pipe() {
    let log = said("SOFTND_COM_LOG", "trace");
    assert!(log.contains("TRACE") || log.contains("DEBUG"), "{log}");
    assert!(!log.contains('\x1b'), "{log:?}");
}

#[test]
fn the_error_of_a_plan_shows_its_place_below_the_rule() {
    let said = said("SOFTND_COM_FAULTS", "when 1st Write send: reset");
    let shown = "\
softnd: faults: fault plan, line 1, column 16: expected `sent` or `received`, found `send`
  when 1st Write send: reset
                 ^
";
    assert!(said.contains(shown), "{said}");
}
