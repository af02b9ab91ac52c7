//! Checks that a DLL is a provider for the programs of this machine, without loading it.

use std::cmp::Ordering;
use std::fs::File;
use std::io::{self, Read, Seek};
use std::path::Path;

use object::LittleEndian as LE;
use object::pe::{
    IMAGE_FILE_DLL, IMAGE_FILE_MACHINE_AMD64, IMAGE_FILE_MACHINE_ARM64, IMAGE_FILE_MACHINE_ARMNT,
    IMAGE_FILE_MACHINE_I386, IMAGE_FILE_MACHINE_UNKNOWN, ImageNtHeaders32, ImageNtHeaders64,
    Machine,
};
use object::read::pe::{ExportTable, ImageNtHeaders, PeFile};
use object::{FileKind, read};

use crate::object_file::Parts;

/// The most octets of a section. Those of softnd.dll with all its symbols are shorter.
const LONGEST: u64 = 64 << 20;

/// The functions that a provider exports (DLL-001, DLL-002).
const FUNCTIONS: [&str; 2] = ["DllGetClassObject", "DllCanUnloadNow"];

/// The processor of this program, for whose programs the catalogue is.
pub(super) const OWN: Machine = if cfg!(target_arch = "x86_64") {
    IMAGE_FILE_MACHINE_AMD64
} else if cfg!(target_arch = "aarch64") {
    IMAGE_FILE_MACHINE_ARM64
} else {
    IMAGE_FILE_MACHINE_UNKNOWN
};

/// Checks the library. The inner error says in words for the user why programs cannot use it.
///
/// # Errors
///
/// The file cannot be read.
pub(super) fn check(path: &Path) -> io::Result<Result<(), String>> {
    look(&mut File::open(path)?)
}

fn look(file: &mut (impl Read + Seek)) -> io::Result<Result<(), String>> {
    let parts = Parts::new(file, LONGEST);
    let found = match FileKind::parse(&parts) {
        Ok(FileKind::Pe32) => judge::<ImageNtHeaders32, _>(&parts),
        Ok(FileKind::Pe64) => judge::<ImageNtHeaders64, _>(&parts),
        Ok(_) | Err(_) => Err("it is no DLL for Windows".to_owned()),
    };
    match parts.finish() {
        Err(error) if error.kind() == io::ErrorKind::InvalidData => {}
        done => done?,
    }
    Ok(found)
}

fn judge<Headers, F>(parts: &Parts<'_, F>) -> Result<(), String>
where
    Headers: ImageNtHeaders,
    F: Read + Seek,
{
    let damaged = |error: read::Error| format!("it is no whole DLL: {error}");
    let file = PeFile::<Headers, _>::parse(parts).map_err(damaged)?;
    let header = file.nt_headers().file_header();
    let machine = header.machine.get(LE);
    if machine != OWN {
        let (of_file, own) = (processor(machine), processor(OWN));
        return Err(format!("it is for {of_file}, and nd is for {own}"));
    }
    if !header.characteristics.get(LE).contains(IMAGE_FILE_DLL) {
        return Err("it is a program and no DLL".to_owned());
    }
    let table = file.export_table().map_err(damaged)?;
    let is_exported = |name| table.as_ref().is_some_and(|table| exports(table, name));
    match FUNCTIONS.into_iter().find(|name| !is_exported(name)) {
        Some(missing) => Err(format!(
            "it is no provider of NetworkDirect: it does not export {missing}"
        )),
        None => Ok(()),
    }
}

/// Names are in order, and Windows looks for them in this way too. A name that cannot be read counts as smaller.
fn exports(table: &ExportTable<'_>, name: &str) -> bool {
    let order = |pointer: u32| {
        let found = table.name_from_pointer(pointer);
        found.map_or(Ordering::Less, |found| found.cmp(name.as_bytes()))
    };
    let names = table.name_pointers();
    names
        .binary_search_by(|pointer| order(pointer.get(LE)))
        .is_ok()
}

fn processor(machine: Machine) -> String {
    match machine {
        IMAGE_FILE_MACHINE_I386 => "x86 with 32 bits".to_owned(),
        IMAGE_FILE_MACHINE_AMD64 => "x86-64".to_owned(),
        IMAGE_FILE_MACHINE_ARMNT => "ARM with 32 bits".to_owned(),
        IMAGE_FILE_MACHINE_ARM64 => "ARM64".to_owned(),
        other => format!("another processor ({other:#06x})"),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::io::Cursor;

    use super::*;

    /// Where the export table is, as offset in the file and as address.
    const EXPORTS: usize = 0x400;
    const ADDRESS: u32 = 0x1000;

    /// A DLL with 64 bits that exports these names, which are in order.
    pub(in super::super) fn made(machine: Machine, names: &[&str]) -> Vec<u8> {
        let mut file = vec![0; 0x800];
        let mut put = |at: usize, octets: &[u8]| file[at..][..octets.len()].copy_from_slice(octets);
        put(0, b"MZ");
        put(0x3C, &0x40_u32.to_le_bytes()); // e_lfanew
        put(0x40, b"PE\0\0");
        put(0x44, &machine.0.to_le_bytes());
        put(0x46, &1_u16.to_le_bytes()); // NumberOfSections
        put(0x54, &0xF0_u16.to_le_bytes()); // SizeOfOptionalHeader
        put(0x56, &0x2022_u16.to_le_bytes()); // Characteristics: a DLL
        put(0x58, &0x20B_u16.to_le_bytes()); // Magic: 64 bits
        put(0xC4, &16_u32.to_le_bytes()); // NumberOfRvaAndSizes
        put(0xC8, &ADDRESS.to_le_bytes()); // the export table
        put(0xCC, &0x400_u32.to_le_bytes());
        put(0x148, b".edata");
        put(0x150, &0x400_u32.to_le_bytes()); // VirtualSize
        put(0x154, &ADDRESS.to_le_bytes());
        put(0x158, &0x400_u32.to_le_bytes()); // SizeOfRawData
        put(0x15C, &0x400_u32.to_le_bytes()); // PointerToRawData
        // The table: addresses of functions at 0x40, of names at 0x80, indexes at 0xC0, names at 0x100.
        let count = u32::try_from(names.len()).unwrap();
        put(EXPORTS + 0x10, &1_u32.to_le_bytes()); // Base
        put(EXPORTS + 0x14, &count.to_le_bytes());
        put(EXPORTS + 0x18, &count.to_le_bytes());
        put(EXPORTS + 0x1C, &(ADDRESS + 0x40).to_le_bytes());
        put(EXPORTS + 0x20, &(ADDRESS + 0x80).to_le_bytes());
        put(EXPORTS + 0x24, &(ADDRESS + 0xC0).to_le_bytes());
        let mut at = 0x100;
        for (index, name) in names.iter().enumerate() {
            let address = ADDRESS + u32::try_from(at).unwrap();
            let number = u16::try_from(index).unwrap();
            put(EXPORTS + 0x40 + 4 * index, &0x10_u32.to_le_bytes());
            put(EXPORTS + 0x80 + 4 * index, &address.to_le_bytes());
            put(EXPORTS + 0xC0 + 2 * index, &number.to_le_bytes());
            put(EXPORTS + at, name.as_bytes());
            at += name.len() + 1;
        }
        file
    }

    pub(in super::super) const NAMES: [&str; 3] =
        ["DllCanUnloadNow", "DllGetClassObject", "another"];

    fn why(file: &[u8]) -> String {
        look(&mut Cursor::new(file))
            .unwrap()
            .expect_err("a wrong library")
    }

    #[test]
    fn a_dll_with_both_functions_is_taken() {
        let file = made(OWN, &NAMES);
        assert_eq!(look(&mut Cursor::new(&file)).unwrap(), Ok(()));
        let file = made(OWN, &NAMES[..2]);
        assert_eq!(look(&mut Cursor::new(&file)).unwrap(), Ok(()));
    }

    #[test]
    fn a_dll_that_programs_cannot_use_is_refused_with_the_reason() {
        let missing = |names: &[&str]| why(&made(OWN, names));
        let lacks = "it is no provider of NetworkDirect: it does not export ";
        assert_eq!(missing(&NAMES[1..]), format!("{lacks}DllCanUnloadNow"));
        assert_eq!(missing(&NAMES[..1]), format!("{lacks}DllGetClassObject"));
        assert_eq!(missing(&[]), format!("{lacks}DllGetClassObject"));
        let mut none = made(OWN, &NAMES);
        none[0xC8..0xD0].fill(0);
        assert_eq!(why(&none), format!("{lacks}DllGetClassObject"));

        let own = processor(OWN);
        for (machine, name) in [
            (IMAGE_FILE_MACHINE_ARMNT, "ARM with 32 bits"),
            (Machine(0x200), "another processor (0x0200)"),
        ] {
            let text = why(&made(machine, &NAMES));
            assert_eq!(text, format!("it is for {name}, and nd is for {own}"));
        }
        let mut of_32_bits = made(IMAGE_FILE_MACHINE_I386, &NAMES);
        of_32_bits[0x58..0x5A].copy_from_slice(&0x10B_u16.to_le_bytes());
        let text = why(&of_32_bits);
        assert!(text.starts_with("it is for x86 with 32 bits, "), "{text}");

        let mut program = made(OWN, &NAMES);
        program[0x57] = 0;
        assert_eq!(why(&program), "it is a program and no DLL");
        for text in [&b"MZ"[..], b"", b"\x7FELF\x02\x01\x01", b"#!/bin/sh\n"] {
            assert_eq!(why(text), "it is no DLL for Windows");
        }
    }

    /// Whatever is in the file, the answer is one of this module's.
    #[test]
    fn a_damaged_dll_is_refused() {
        let whole = made(OWN, &NAMES);
        for len in 0..EXPORTS + 0x100 {
            why(&whole[..len]);
        }
        for at in 0..whole.len() {
            for value in [0, 0x7F, 0xFF] {
                let mut damaged = whole.clone();
                damaged[at] = value;
                let _ = look(&mut Cursor::new(&damaged)).unwrap();
            }
        }
    }

    #[test]
    fn an_error_of_the_system_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let missing = check(&folder.path().join("none.dll")).unwrap_err();
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
        check(folder.path()).expect_err("a folder");
    }
}
