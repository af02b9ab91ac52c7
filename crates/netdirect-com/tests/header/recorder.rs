//! Every method and every argument, called between Rust and C in both directions.
//!
//! A recorder is an object whose functions note their slot and their arguments, and return a number made of their slot. C and C++ call
//! recorders made in Rust through the header; Rust calls recorders that C tables and C++ classes implement.

use std::ffi::c_void;
use std::fmt::Write as _;

use netdirect_com::abi::This;

use crate::compilers::{Compiler, HOST, Language, Loaded, WINDOWS};
use crate::interfaces::{self, Argument, Call, Interface, Kind, Method, Object};
use crate::list::interfaces;

/// The function that recorders in C call: the interface, the slot, and the object and the arguments as numbers.
type Note = unsafe extern "C" fn(interface: u32, slot: u32, count: u32, values: *const u64);

unsafe extern "C" fn note(interface: u32, slot: u32, count: u32, values: *const u64) {
    // SAFETY: the sources below pass an array of this length.
    let values = unsafe { std::slice::from_raw_parts(values, count as usize) };
    interfaces::note(Call {
        interface: interface as usize,
        slot: slot as usize,
        object: values[0],
        arguments: values[1..].to_vec(),
    });
}

/// The calls that [`Interface::call`], or its counterpart in C, makes of an object.
fn expected(number: usize, interface: &Interface, object: *const c_void) -> Vec<Call> {
    let call = |method: &Method| Call {
        interface: number,
        slot: method.slot,
        object: object.addr() as u64,
        arguments: method.arguments.iter().map(|arg| arg.value).collect(),
    };
    interface.methods.iter().map(call).collect()
}

/// The value of an argument, as an expression.
fn literal(argument: &Argument, language: Language) -> String {
    let Argument { c_type, value, .. } = argument;
    match (argument.kind, language) {
        (Kind::Reference, Language::Cpp) => format!("*(const IID *)(uintptr_t){value:#x}ULL"),
        (Kind::Pointer | Kind::Reference, _) => format!("({c_type})(uintptr_t){value:#x}ULL"),
        (Kind::Unsigned | Kind::Signed, _) => format!("({c_type}){value:#x}ULL"),
    }
}

/// The parameter `a<position>` as a number.
fn number(position: usize, argument: &Argument, language: Language) -> String {
    match (argument.kind, language) {
        (Kind::Reference, Language::Cpp) => format!("(uint64_t)(uintptr_t)&a{position}"),
        (Kind::Pointer | Kind::Reference, _) => format!("(uint64_t)(uintptr_t)a{position}"),
        (Kind::Unsigned, _) => format!("(uint64_t)a{position}"),
        (Kind::Signed, _) => format!("(uint64_t)(uint32_t)a{position}"),
    }
}

/// `call_<interface>`, which calls each method of an object and returns the number of wrong results.
fn caller(interface: &Interface, language: Language) -> String {
    let name = interface.name;
    let mut code =
        format!("int call_{name}(void *p)\n{{\n    {name} *o = ({name} *)p;\n    int wrong = 0;\n");
    for method in &interface.methods {
        let arguments: Vec<_> = method
            .arguments
            .iter()
            .map(|arg| literal(arg, language))
            .collect();
        let Method {
            name: function,
            answer,
            ..
        } = method;
        let call = match language {
            Language::C => {
                let all = [vec!["o".to_owned()], arguments].concat().join(", ");
                format!("{name}_{function}({all})")
            }
            Language::Cpp => format!("o->{function}({})", arguments.join(", ")),
        };
        // An HRESULT is negative; its bits are compared.
        let bits = if method.returns == "UINT64" {
            "uint64_t"
        } else {
            "uint32_t"
        };
        writeln!(code, "    wrong += ({bits}){call} != {answer:#x}ULL;").unwrap();
    }
    code + "    return wrong;\n}\n"
}

/// The body of a recorder's function.
fn body(number_of_interface: usize, method: &Method, language: Language) -> String {
    let this = match language {
        Language::C => "This",
        Language::Cpp => "this",
    };
    let mut values = vec![format!("(uint64_t)(uintptr_t){this}")];
    let arguments = method.arguments.iter().enumerate();
    values.extend(arguments.map(|(position, arg)| number(position, arg, language)));
    let Method {
        slot,
        returns,
        answer,
        ..
    } = method;
    format!(
        "{{ const uint64_t values[] = {{{}}}; note({number_of_interface}, {slot}, {}, values); return ({returns}){answer:#x}ULL; }}",
        values.join(", "),
        values.len(),
    )
}

/// The parameters of a method after the object.
fn parameters(method: &Method) -> Vec<String> {
    let arguments = method.arguments.iter().enumerate();
    arguments
        .map(|(position, arg)| format!("{} a{position}", arg.c_type))
        .collect()
}

/// A recorder with a table of C, and `object_<interface>`, which returns it.
fn recorder_in_c(number: usize, interface: &Interface) -> String {
    let name = interface.name;
    let mut code = String::new();
    for method in &interface.methods {
        let all = [vec![format!("{name} *This")], parameters(method)]
            .concat()
            .join(", ");
        let Method {
            name: function,
            returns,
            ..
        } = method;
        let body = body(number, method, Language::C);
        writeln!(
            code,
            "static {returns} STDMETHODCALLTYPE f_{name}_{function}({all}) {body}"
        )
        .unwrap();
    }
    writeln!(code, "static const {name}Vtbl t_{name} = {{").unwrap();
    for Method { name: function, .. } in &interface.methods {
        writeln!(code, "    .{function} = f_{name}_{function},").unwrap();
    }
    writeln!(code, "}};\nstatic {name} o_{name} = {{&t_{name}}};").unwrap();
    writeln!(code, "void *object_{name}(void) {{ return &o_{name}; }}").unwrap();
    code
}

/// A recorder as a class of C++, and `object_<interface>`, which returns it.
fn recorder_in_cpp(number: usize, interface: &Interface) -> String {
    let name = interface.name;
    let mut code = format!("struct R_{name} final : {name} {{\n");
    for method in &interface.methods {
        let Method {
            name: function,
            returns,
            ..
        } = method;
        let all = parameters(method).join(", ");
        let body = body(number, method, Language::Cpp);
        writeln!(
            code,
            "    {returns} STDMETHODCALLTYPE {function}({all}) override {body}"
        )
        .unwrap();
    }
    writeln!(code, "}};\nstatic R_{name} o_{name};").unwrap();
    writeln!(
        code,
        "void *object_{name}(void) {{ {name} *o = &o_{name}; return o; }}"
    )
    .unwrap();
    code
}

/// The source of callers and recorders of all interfaces.
fn source(all: &[Interface], language: Language) -> String {
    let mut code = String::from("#include \"netdirect.h\"\n");
    let mut exports = String::new();
    for (number, interface) in all.iter().enumerate() {
        exports += &caller(interface, language);
        exports += &match language {
            Language::C => recorder_in_c(number, interface),
            Language::Cpp => recorder_in_cpp(number, interface),
        };
    }
    let note = "void (*note)(uint32_t number, uint32_t slot, uint32_t count, const uint64_t *values);\n\
                void note_to(void (*function)(uint32_t, uint32_t, uint32_t, const uint64_t *)) { note = function; }\n";
    match language {
        Language::C => code += &format!("static {note}{exports}"),
        Language::Cpp => code += &format!("extern \"C\" {{\nstatic {note}{exports}}}\n"),
    }
    code
}

/// C or C++ calls recorders of Rust.
fn calls_rust(all: &[Interface], loaded: &Loaded, what: &str) {
    for (number, interface) in all.iter().enumerate() {
        let name = format!("call_{}", interface.name);
        // SAFETY: the source declares this type.
        let call: unsafe extern "C" fn(*mut c_void) -> i32 = unsafe { loaded.function(&name) };
        let object = Object {
            table: interface.recorder,
            interface: number,
        };
        let object = std::ptr::from_ref(&object).cast_mut().cast::<c_void>();
        // SAFETY: the object has a table of this interface.
        let wrong = unsafe { call(object) };
        assert_eq!(wrong, 0, "{what}: answers to {name}");
        assert_eq!(
            interfaces::take_notes(),
            expected(number, interface, object),
            "{what}: {name}"
        );
    }
}

/// Rust calls recorders of C or C++.
fn is_called_by_rust(all: &[Interface], loaded: &Loaded, what: &str) {
    // SAFETY: the source declares this type.
    let note_to: unsafe extern "C" fn(Note) = unsafe { loaded.function("note_to") };
    // SAFETY: the function can be called at any time.
    unsafe { note_to(note) };
    for (number, interface) in all.iter().enumerate() {
        let name = format!("object_{}", interface.name);
        // SAFETY: the source declares this type.
        let object: unsafe extern "C" fn() -> This = unsafe { loaded.function(&name) };
        // SAFETY: the function only returns a pointer.
        let object = unsafe { object() };
        // SAFETY: the object has this interface, and notes its arguments only.
        let answers = unsafe { (interface.call)(object, number) };
        let expected_answers: Vec<_> = interface
            .methods
            .iter()
            .map(|method| method.answer)
            .collect();
        assert_eq!(answers, expected_answers, "{what}: answers of {name}");
        assert_eq!(
            interfaces::take_notes(),
            expected(number, interface, object),
            "{what}: {name}"
        );
    }
}

/// Every slot of a table belongs to exactly one method.
#[test]
fn every_slot_is_listed() {
    for interface in interfaces() {
        let slots: Vec<_> = interface.methods.iter().map(|method| method.slot).collect();
        let all: Vec<_> = (0..interface.table_size / size_of::<usize>()).collect();
        assert_eq!(slots, all, "{}", interface.name);
    }
}

#[test]
fn every_method_is_called_in_both_directions() {
    let all = interfaces();
    for compiler in HOST.into_iter().filter(|compiler| compiler.is_here()) {
        let loaded = compiler.load(&source(&all, compiler.language));
        let what = format!("{compiler:?}");
        calls_rust(&all, &loaded, &what);
        is_called_by_rust(&all, &loaded, &what);
    }
}

/// The types of all methods are those of the header on Windows too.
#[test]
fn every_method_compiles_for_windows() {
    let all = interfaces();
    let here = |compiler: &Compiler| compiler.is_here();
    for compiler in WINDOWS.into_iter().filter(here) {
        // Windows makes short forms for the interfaces of COM, and their tables constant, on demand.
        compiler.object(
            &source(&all, compiler.language),
            &["-DCOBJMACROS", "-DCONST_VTABLE"],
        );
    }
}
