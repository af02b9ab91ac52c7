//! `include/netdirect.h` against [`netdirect_com::abi`]: with gcc and clang for this system, and with mingw for Windows, in C and C++.
#![cfg(unix)]

mod compilers;
mod facts;
mod interfaces;
mod list;
mod names;
mod recorder;

use std::fs;
use std::path::Path;

use netdirect_com::abi::Guid;

use crate::compilers::{Compiler, HOST, Language, WINDOWS};
use crate::list::interfaces;

#[test]
fn sizes_offsets_and_values_are_equal() {
    let here = |compiler: &Compiler| compiler.is_here();
    for compiler in HOST.into_iter().chain(WINDOWS).filter(here) {
        compiler.object(&facts::assertions(), &[]);
    }
}

#[test]
fn older_standards_suffice() {
    let source = "#include <netdirect.h>\n\
        HRESULT begins(void);\n\
        HRESULT begins(void)\n{\n    OVERLAPPED request;\n    ZeroMemory(&request, sizeof(request));\n\
        return HasOverlappedIoCompleted(&request) ? ND_SUCCESS : ND_PENDING;\n}\n";
    for compiler in HOST.into_iter().filter(|compiler| compiler.is_here()) {
        let standard = match compiler.language {
            Language::C => "-std=c99",
            Language::Cpp => "-std=c++11",
        };
        compiler.object(source, &[standard]);
    }
}

/// Programs keep an OVERLAPPED in a structure of their own, and find the structure by the OVERLAPPED of a packet.
#[test]
fn a_structure_is_found_by_its_overlapped_and_filled_with_zeros() {
    let source = "#include <netdirect.h>\n\
        struct request { uint64_t number; OVERLAPPED overlapped; uint64_t after; };\n\
        #ifdef __cplusplus\nextern \"C\"\n#endif\n\
        uint64_t number(uint64_t given);\n\
        uint64_t number(uint64_t given)\n{\n    struct request request = {given, {0, 0, {{0, 0}}, 0}, 7};\n\
        OVERLAPPED *overlapped = &request.overlapped;\n    overlapped->Internal = 9;\n\
        ZeroMemory(overlapped, sizeof(*overlapped));\n\
        if (overlapped->Internal != 0 || request.after != 7)\n        return 0;\n\
        return CONTAINING_RECORD(overlapped, struct request, overlapped)->number;\n}\n";
    for compiler in HOST.into_iter().filter(|compiler| compiler.is_here()) {
        let loaded = compiler.load(source);
        // SAFETY: the source declares this type.
        let number: unsafe extern "C" fn(u64) -> u64 = unsafe { loaded.function("number") };
        // SAFETY: the function uses its own memory only.
        let found = unsafe { number(5) };
        assert_eq!(found, 5, "{compiler:?}");
    }
}

#[test]
fn identifiers_are_equal() {
    for compiler in HOST.into_iter().filter(|compiler| compiler.is_here()) {
        let loaded = compiler.load(&facts::identifiers());
        // SAFETY: the source declares this type.
        let identifier: unsafe extern "C" fn(u32) -> *const Guid =
            unsafe { loaded.function("identifier") };
        for (index, interface) in (0..).zip(interfaces()) {
            // SAFETY: the function can be called with any index.
            let iid = unsafe { identifier(index) };
            // SAFETY: it returns a constant of the library, which is loaded.
            let iid = unsafe { *iid };
            assert_eq!(iid, interface.iid, "{compiler:?}: {}", interface.name);
        }
    }
}

/// Programs for Windows are not run, so this looks for the octets of each identifier of ND2.
#[test]
fn windows_programs_have_the_identifiers() {
    for compiler in WINDOWS.into_iter().filter(|compiler| compiler.is_here()) {
        let object = compiler.object(&facts::identifiers(), &[]);
        for interface in interfaces() {
            let Guid {
                data1,
                data2,
                data3,
                data4,
            } = interface.iid;
            let (data1, data2, data3) = (
                data1.to_le_bytes(),
                data2.to_le_bytes(),
                data3.to_le_bytes(),
            );
            let octets = [&data1[..], &data2, &data3, &data4].concat();
            let is_there = object.windows(octets.len()).any(|window| window == octets);
            // Windows' own libraries have the identifiers of COM.
            assert_eq!(
                is_there,
                interface.name.starts_with("IND"),
                "{compiler:?}: {}",
                interface.name
            );
        }
    }
}

/// The samples use nothing that only one system has.
#[test]
fn samples_compile_for_this_system_and_for_windows() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples");
    let mut seen = 0;
    for entry in fs::read_dir(&folder).expect("the samples are there") {
        let path = entry.expect("the folder can be read").path();
        let language = match path.extension().and_then(|extension| extension.to_str()) {
            Some("c") => Language::C,
            Some("cpp") => Language::Cpp,
            _ => continue,
        };
        seen += 1;
        let source = fs::read_to_string(&path).expect("the sample can be read");
        let header = format!("-I{}", folder.display());
        let is_its = |compiler: &Compiler| compiler.language == language && compiler.is_here();
        for compiler in HOST.into_iter().chain(WINDOWS).filter(is_its) {
            compiler.object(&source, &[&header]);
        }
    }
    assert_eq!(seen, 3, "there are other samples");
}
