use super::*;

use tempfile::TempDir;

/// A crate that is in its own folder for as long as the test runs.
struct MadeUp {
    folder: TempDir,
    code: Crate,
}

impl MadeUp {
    /// A crate of these files, the first of which is its root.
    fn with_files(files: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let code = Crate::read(&folder.path().join(files[0].0));
        Self { folder, code }
    }

    /// The circles, each as the names of its files.
    fn circles(&self) -> Vec<String> {
        self.circles_but(&[])
    }

    /// The circles, where these types may be shared out over files.
    fn circles_but(&self, units: &[&str]) -> Vec<String> {
        let circles = self.code.circles(units);
        let short = |path: &Path| path.strip_prefix(self.folder.path()).unwrap().to_owned();
        let names = circles.iter().map(|circle| {
            let files = circle.files.iter().map(|file| short(file));
            let files: Vec<_> = files.map(|file| file.display().to_string()).collect();
            files.join(" ")
        });
        names.collect()
    }

    fn uses(&self, file: &str) -> Uses {
        let path = self.folder.path().join(file);
        let uses = self.code.uses().remove(path.as_path());
        uses.expect("the file is part of the crate")
    }
}

/// The circles of a crate of three modules: `lib.rs`, and `a.rs` and `b.rs` with these texts.
fn circles_of(lib: &str, a: &str, b: &str) -> Vec<String> {
    MadeUp::with_files(&[("lib.rs", lib), ("a.rs", a), ("b.rs", b)]).circles()
}

const BOTH: &str = "mod a; mod b;";
const USES_B: &str = "use crate::b::B; pub struct A(B);";
const USES_A: &str = "pub struct B(Option<Box<crate::a::A>>);";

#[test]
fn two_files_that_name_each_other_are_a_circle() {
    assert_eq!(circles_of(BOTH, USES_B, USES_A), ["a.rs b.rs"]);
}

#[test]
fn one_direction_is_no_circle() {
    assert!(circles_of(BOTH, USES_B, "pub struct B;").is_empty());
}

#[test]
fn a_circle_of_three_files_is_found_and_a_file_beside_the_circle_left_out() {
    let made_up = MadeUp::with_files(&[
        ("lib.rs", "mod a; mod b; mod c; mod d;"),
        ("a.rs", "use super::b; pub fn f() { b::f(); }"),
        ("b.rs", "pub fn f() { super::c::f(); }"),
        ("c.rs", "use crate::{a, d}; pub fn f() { a::f(); d::f() }"),
        ("d.rs", "pub fn f() {}"),
    ]);
    assert_eq!(made_up.circles(), ["a.rs b.rs c.rs"]);
    let circles = made_up.code.circles(&[]);
    let text = circles[0].describe(made_up.folder.path());
    assert_eq!(
        text,
        "    a.rs -> b.rs: b::f, super::b\n    b.rs -> c.rs: super::c::f\n    c.rs -> a.rs: a::f, crate::a\n"
    );
}

#[test]
fn two_circles_are_told_apart() {
    let made_up = MadeUp::with_files(&[
        ("lib.rs", "mod a; mod b; mod c; mod d;"),
        ("a.rs", "use crate::b::B; pub struct A; use crate::c::C;"),
        ("b.rs", "use crate::a::A; pub struct B;"),
        ("c.rs", "use crate::d::D; pub struct C;"),
        ("d.rs", "use crate::c::C; pub struct D;"),
    ]);
    assert_eq!(made_up.circles(), ["a.rs b.rs", "c.rs d.rs"]);
}

#[test]
fn each_way_to_name_something_counts() {
    let ways = [
        "fn f() { use crate::a::A; }",
        "fn f() { crate::a::f(); }",
        "fn f(x: &dyn super::a::T) {}",
        "impl crate::a::T for B {}",
        "use super::a as other; fn f() { other::f(); }",
        "use super::*; fn f() { a::f(); }",
        "use crate::a::*;",
        "use crate::a::{self};",
        "use crate::{a::{f, A}};",
        "fn f() { println!(\"{}\", crate::a::f()); }",
        "fn f() { vec![1, crate::a::f()]; }",
        "#[arg(value_parser = crate::a::f)] struct S;",
        "macro_rules! m { () => { $crate::a::f() } }",
        "mod inner { use super::super::a::A; }",
        "fn f() { match 1 { crate::a::ONE => {} _ => {} } }",
        "use crate::a::defined_by_a_macro;",
        "#[cfg(not(test))] use crate::a::A;",
        "#[cfg(any(test, unix))] use crate::a::A;",
        "#[cfg(unix)] fn f() { crate::a::f() }",
    ];
    for way in ways {
        let circles = circles_of(BOTH, USES_B, &format!("pub struct B; {way}"));
        assert_eq!(circles, ["a.rs b.rs"], "{way}");
    }
}

#[test]
fn what_only_looks_like_a_dependency_does_not_count() {
    let ways = [
        "/// See [`A`](crate::a::A).\nfn f() {}",
        "// crate::a::A\n",
        "fn f() { let text = \"crate::a::A\"; }",
        "pub(in crate::a) fn f() {}",
        "fn f(a: Other) { a.f(); println!(\"{}\", a.f()); }",
        "#[cfg(test)] mod tests { use crate::a::A; }",
        "#[cfg(all(test, not(loom)))] use crate::a::A;",
        "#[cfg(loom)] use crate::a::A;",
        "#[test] fn f() { crate::a::f() }",
        "impl B { #[cfg(test)] fn f() { crate::a::f() } }",
        "use ::a::A;",
        "bitflags! { pub(crate) struct F: u8 { const X = 1; } } fn g() { F::X.bits() }",
        "fn f() { ::a::f(); }",
        "mod a { pub struct A; } use a::A; fn f() { self::a::f() }",
    ];
    for way in ways {
        let circles = circles_of(BOTH, USES_B, &format!("pub struct B; {way}"));
        assert!(circles.is_empty(), "{way}");
    }
}

#[test]
fn a_parent_that_hands_on_what_its_children_define_depends_on_none_of_them() {
    let made_up = MadeUp::with_files(&[
        ("lib.rs", "mod p;"),
        (
            "p/mod.rs",
            "mod a; mod b; pub use a::A; pub(crate) use b::*; pub const N: u8 = 1;",
        ),
        // `A` is found where it is defined, in a.rs.
        ("p/a.rs", "pub struct A; const N: u8 = super::N;"),
        ("p/b.rs", "use super::A; pub struct B(A);"),
    ]);
    assert!(made_up.circles().is_empty(), "{:?}", made_up.circles());
}

#[test]
fn a_parent_that_uses_what_it_hands_on_depends_on_it() {
    let made_up = MadeUp::with_files(&[
        ("lib.rs", "mod p;"),
        (
            "p/mod.rs",
            "mod a; pub use a::A; pub const N: u8 = 1; fn f() -> A { A }",
        ),
        ("p/a.rs", "pub struct A; const N: u8 = super::N;"),
    ]);
    assert_eq!(made_up.circles(), ["p/a.rs p/mod.rs"]);
}

#[test]
fn a_circle_through_what_somebody_else_hands_on_is_found() {
    let made_up = MadeUp::with_files(&[
        ("lib.rs", "mod a; mod b; pub use b::B; pub use self::a::*;"),
        ("a.rs", "use crate::B; pub struct A(B);"),
        ("b.rs", "pub struct B(Box<crate::A>);"),
    ]);
    assert_eq!(made_up.circles(), ["a.rs b.rs"]);
}

#[test]
fn imports_that_lead_to_each_other_end() {
    let lib = "mod a; mod b; pub use a::*; pub use b::*;";
    let circles = circles_of(
        lib,
        "pub use crate::b::X; pub use super::*;",
        "pub use crate::a::X; pub use super::*; fn f() { X::new(); Y::new() }",
    );
    assert!(circles.is_empty());
}

#[test]
fn modules_are_found_in_their_files() {
    let made_up = MadeUp::with_files(&[
        (
            "lib.rs",
            "mod a; mod b; #[path = \"other.rs\"] mod c; mod d { mod e; }",
        ),
        ("a.rs", "mod inner;"),
        ("a/inner.rs", ""),
        ("b/mod.rs", "mod inner; #[cfg(test)] mod tests;"),
        ("b/inner.rs", ""),
        ("other.rs", ""),
        ("d/e.rs", ""),
    ]);
    let files = made_up.code.files().iter();
    let files: Vec<_> = files
        .map(|file| file.strip_prefix(made_up.folder.path()).unwrap())
        .collect();
    let expected = [
        "lib.rs",
        "a.rs",
        "a/inner.rs",
        "b/mod.rs",
        "b/inner.rs",
        "other.rs",
        "d/e.rs",
    ];
    assert_eq!(files, expected.map(Path::new));
}

/// Whose functions are in two files that call each other.
fn shared_out(call: &str) -> MadeUp {
    MadeUp::with_files(&[
        ("lib.rs", "mod a; mod b; mod c;"),
        (
            "a.rs",
            &format!("pub struct A; impl A {{ fn f(&self) {{ {call} }} }}"),
        ),
        (
            "b.rs",
            "use crate::a::A; impl A { pub(super) fn g(&self) {} }",
        ),
        (
            "c.rs",
            "impl A { fn h() {} } pub struct A; fn f() { A::h(); }",
        ),
    ])
}

#[test]
fn functions_of_a_type_belong_to_the_file_that_has_them() {
    for call in [
        "self.g()",
        "Self::g(self)",
        "A::g(self)",
        "crate::a::A::g(self)",
        "x.map(Self::g)",
    ] {
        let made_up = shared_out(call);
        assert_eq!(made_up.circles(), ["a.rs b.rs"], "{call}");
        assert!(made_up.circles_but(&["a::A"]).is_empty(), "{call}");
        assert_eq!(made_up.circles_but(&["c::A"]), ["a.rs b.rs"], "{call}");
    }
    for call in ["self.f()", "Self::f(self)", "other.g()", "self.x.g()"] {
        assert!(shared_out(call).circles().is_empty(), "{call}");
    }
}

#[test]
fn a_unit_is_in_a_circle_with_files_that_it_takes_something_from() {
    let made_up = MadeUp::with_files(&[
        ("lib.rs", "mod a; mod b;"),
        (
            "a.rs",
            "pub struct A; impl A { fn f(&self) { self.g(); crate::b::f() } }",
        ),
        (
            "b.rs",
            "use crate::a::A; impl A { pub fn g(&self) {} } pub fn f() {}",
        ),
    ]);
    assert_eq!(made_up.circles_but(&["a::A"]), ["a.rs b.rs"]);
}

#[test]
fn functions_of_a_trait_object_are_its_own() {
    let made_up = MadeUp::with_files(&[
        ("lib.rs", "mod a; mod b;"),
        (
            "a.rs",
            "pub trait T { fn f(&self); } impl dyn T { fn g(&self) { self.h() } }",
        ),
        ("b.rs", "impl dyn crate::a::T { pub fn h(&self) {} }"),
    ]);
    assert_eq!(made_up.circles(), ["a.rs b.rs"]);
}

#[test]
fn a_package_has_a_library_and_programs() {
    let files = [
        ("src/lib.rs", "mod a;"),
        ("src/a.rs", ""),
        ("src/main.rs", ""),
        ("src/bin/one.rs", ""),
        ("src/bin/two/main.rs", "mod b;"),
        ("src/bin/two/b.rs", ""),
    ];
    let made_up = MadeUp::with_files(&files);
    let crates = Crate::of_package(made_up.folder.path());
    let read = crates.iter().flat_map(Crate::files);
    let read: BTreeSet<_> = read
        .map(|file| file.strip_prefix(made_up.folder.path()).unwrap())
        .collect();
    assert_eq!(
        read,
        files.iter().map(|(name, _)| Path::new(name)).collect()
    );
    assert_eq!(crates.len(), 4);
}

#[test]
fn paths_of_other_crates_are_told_in_full() {
    let lib = "mod sync; use std::thread; use std::time::Instant as Clock; use sync::net::TcpStream;
        fn f() { thread::spawn(g); Clock::now(); TcpStream::connect(1); assert!(::rustix::net::socket()); }
        use std::sync::*;
        unsafe extern \"C\" { safe fn getpid() -> i32; fn getenv(); static environ: u8; }
        #[cfg(test)] fn t() { std::fs::read(1); }";
    let sync = "#[cfg(loom)] pub use loom::net; #[cfg(not(loom))] pub use std::net;";
    let made_up = MadeUp::with_files(&[("lib.rs", lib), ("sync.rs", sync)]);
    let paths = made_up.uses("lib.rs").paths;
    for path in [
        "std::thread::spawn",
        "std::time::Instant::now",
        "std::net::TcpStream::connect",
        "rustix::net::socket",
        "std::sync::*",
        "extern::getpid",
        "extern::getenv",
        "extern::environ",
    ] {
        assert!(paths.contains(path), "{path}: {paths:?}");
    }
    assert!(!paths.contains("std::fs::read"), "{paths:?}");
}

#[test]
fn unsafe_is_seen_in_each_of_its_places_and_outside_of_tests_alone() {
    let places = [
        "fn f() { unsafe { g() } }",
        "unsafe fn f() {}",
        "unsafe impl Send for X {}",
        "unsafe trait T {}",
        "impl X { unsafe fn f() {} }",
        "unsafe extern \"C\" { fn f(); }",
        "fn f() { dbg!(unsafe { g() }); }",
        "#[unsafe(no_mangle)] fn f() {}",
    ];
    for place in places {
        let made_up = MadeUp::with_files(&[("lib.rs", place)]);
        assert!(made_up.uses("lib.rs").has_unsafe, "{place}");
    }
    let without = "#![forbid(unsafe_code)] // unsafe\n #[cfg(test)] unsafe fn f() {}";
    let made_up = MadeUp::with_files(&[("lib.rs", without)]);
    assert!(!made_up.uses("lib.rs").has_unsafe);
}

#[test]
fn methods_that_are_called_are_known_by_name() {
    let made_up = MadeUp::with_files(&[("lib.rs", "fn f(x: X) { x.elapsed().g(); }")]);
    let methods = made_up.uses("lib.rs").methods;
    assert_eq!(methods.iter().collect::<Vec<_>>(), ["elapsed", "g"]);
}
