//! Finds one section of an ELF file, and the libraries that it needs, without reading the rest of the file.

use std::io::{self, Read, Seek};

use object::elf::{DT_NEEDED, FileHeader32, FileHeader64};
use object::read::elf::{Dyn, FileHeader, SectionHeader};
use object::{Endianness, FileKind};

use crate::object_file::Parts;

/// The most octets of a table or of a section; a file with a larger one is not one of our libraries.
const LONGEST: u64 = 1 << 20;

/// What is looked for in a file.
trait Search {
    type Found;

    fn search<Elf, F>(&self, file: &Parts<'_, F>) -> object::Result<Self::Found>
    where
        Elf: FileHeader<Endian = Endianness>,
        F: Read + Seek;
}

/// Looks in an ELF file of 32 or of 64 bits. `None` if the file is no ELF file, or a part of it is missing.
fn look<S: Search>(file: &mut (impl Read + Seek), search: &S) -> io::Result<Option<S::Found>> {
    let parts = Parts::new(file, LONGEST);
    let found = match FileKind::parse(&parts) {
        Ok(FileKind::Elf32) => search.search::<FileHeader32<Endianness>, _>(&parts).ok(),
        Ok(FileKind::Elf64) => search.search::<FileHeader64<Endianness>, _>(&parts).ok(),
        _ => None,
    };
    parts.finish()?;
    Ok(found)
}

/// The octets of the section with this name. `None` if the file has none, or is no ELF file.
pub(super) fn section(file: &mut (impl Read + Seek), name: &str) -> io::Result<Option<Vec<u8>>> {
    Ok(look(file, &Section(name))?.flatten())
}

struct Section<'n>(&'n str);

impl Search for Section<'_> {
    type Found = Option<Vec<u8>>;

    fn search<Elf, F>(&self, file: &Parts<'_, F>) -> object::Result<Self::Found>
    where
        Elf: FileHeader<Endian = Endianness>,
        F: Read + Seek,
    {
        let header = Elf::parse(file)?;
        let endian = header.endian()?;
        let sections = header.sections(endian, file)?;
        let found = sections.section_by_name(endian, self.0.as_bytes());
        let octets = found.map(|(_, section)| section.data(endian, file).map(<[u8]>::to_vec));
        octets.transpose()
    }
}

/// The names of the libraries that a program needs, but for names of more than 256 octets.
pub(super) fn needed(file: &mut (impl Read + Seek)) -> io::Result<Vec<Vec<u8>>> {
    Ok(look(file, &Needed)?.unwrap_or_default())
}

struct Needed;

impl Search for Needed {
    type Found = Vec<Vec<u8>>;

    fn search<Elf, F>(&self, file: &Parts<'_, F>) -> object::Result<Self::Found>
    where
        Elf: FileHeader<Endian = Endianness>,
        F: Read + Seek,
    {
        let header = Elf::parse(file)?;
        let endian = header.endian()?;
        let sections = header.sections(endian, file)?;
        let Some((entries, names)) = sections.dynamic(endian, file)? else {
            return Ok(Vec::new());
        };
        let names = sections.strings(endian, file, names)?;
        let needed = entries
            .iter()
            .filter(|entry| entry.tag(endian) == DT_NEEDED);
        let named = needed.filter_map(|entry| names.get(entry.val32(endian)?).ok());
        Ok(named.map(<[u8]>::to_vec).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Cursor, SeekFrom};

    /// Where the numbers are in files of 32 or of 64 bits (System V ABI, chapter 4): offsets within the header of the file and within that of
    /// a section.
    struct Layout {
        /// The octets of an offset or a size.
        word: usize,
        sections: usize,
        section_len: usize,
        section_count: usize,
        names: usize,
        offset: usize,
        size: usize,
        link: usize,
    }

    const BITS_32: Layout = Layout {
        word: 4,
        sections: 0x20,
        section_len: 0x2E,
        section_count: 0x30,
        names: 0x32,
        offset: 0x10,
        size: 0x14,
        link: 0x18,
    };

    const BITS_64: Layout = Layout {
        word: 8,
        sections: 0x28,
        section_len: 0x3A,
        section_count: 0x3C,
        names: 0x3E,
        offset: 0x18,
        size: 0x20,
        link: 0x28,
    };

    /// A file with four sections: none, the names, one with a text, and the libraries that are needed, whose names are those of sections.
    fn file(layout: &Layout, is_big_endian: bool) -> Vec<u8> {
        let mut file = vec![0; 0x300];
        let put = |file: &mut Vec<u8>, at: usize, len: usize, value: u64| {
            let octets = value.to_be_bytes();
            let octets = &octets[8 - len..];
            for (index, octet) in octets.iter().enumerate() {
                let index = if is_big_endian {
                    index
                } else {
                    len - 1 - index
                };
                file[at + index] = *octet;
            }
        };
        let is_64 = layout.word == 8;
        let (class, order) = (1 + u8::from(is_64), 1 + u8::from(is_big_endian));
        file[..7].copy_from_slice(&[0x7F, b'E', b'L', b'F', class, order, 1]);
        let section_len = if is_64 { 64 } else { 40 };
        put(&mut file, layout.sections, layout.word, 0x80);
        put(&mut file, layout.section_len, 2, section_len as u64);
        put(&mut file, layout.section_count, 2, 4);
        put(&mut file, layout.names, 2, 1);
        let names = b"\0.reason\0.names\0libasan.so.8\0";
        file[0x200..][..names.len()].copy_from_slice(names);
        file[0x240..][..9].copy_from_slice(b"no linker");
        // SHT_STRTAB, SHT_PROGBITS and SHT_DYNAMIC, with three entries: DT_NEEDED, DT_SONAME and DT_NULL.
        let entries = 6 * layout.word;
        for (index, (name, kind, offset, size)) in [
            (9, 3, 0x200, names.len()),
            (1, 1, 0x240, 9),
            (0, 6, 0x280, entries),
        ]
        .into_iter()
        .enumerate()
        {
            let at = 0x80 + (index + 1) * section_len;
            put(&mut file, at, 4, name);
            put(&mut file, at + 4, 4, kind);
            put(&mut file, at + layout.offset, layout.word, offset);
            put(&mut file, at + layout.size, layout.word, size as u64);
            put(&mut file, at + layout.link, 4, 1);
        }
        for (index, value) in [1, 16, 14, 9].into_iter().enumerate() {
            put(&mut file, 0x280 + index * layout.word, layout.word, value);
        }
        file
    }

    #[test]
    fn a_section_is_found_in_every_form_of_file() {
        for layout in [&BITS_32, &BITS_64] {
            for is_big_endian in [false, true] {
                let file = file(layout, is_big_endian);
                let find = |name| section(&mut Cursor::new(&file), name).unwrap();
                assert_eq!(find(".reason").as_deref(), Some(&b"no linker"[..]));
                assert_eq!(find(".reasons"), None);
                assert_eq!(find(".reaso"), None);
            }
        }
    }

    #[test]
    fn the_libraries_that_are_needed_are_found_in_every_form_of_file() {
        for layout in [&BITS_32, &BITS_64] {
            for is_big_endian in [false, true] {
                let file = file(layout, is_big_endian);
                let needed = needed(&mut Cursor::new(&file)).unwrap();
                assert_eq!(needed, [b"libasan.so.8"]);
            }
        }
    }

    #[test]
    fn files_that_are_cut_or_no_elf_files_have_no_section() {
        let whole = file(&BITS_64, false);
        for len in 0..0x240 {
            let cut = &whole[..len];
            assert_eq!(section(&mut Cursor::new(cut), ".reason").unwrap(), None);
            assert_eq!(needed(&mut Cursor::new(cut)).unwrap(), [b""; 0]);
        }
        let script = b"#!/bin/sh\n";
        assert_eq!(section(&mut Cursor::new(script), ".x").unwrap(), None);
    }

    #[test]
    fn a_section_that_no_library_has_is_an_error() {
        let mut huge = file(&BITS_64, false);
        huge.resize(2 << 20, 0);
        let size = 0x80 + 2 * 64 + BITS_64.size;
        huge[size..size + 8].copy_from_slice(&((1 << 20) + 1_u64).to_le_bytes());
        let error = section(&mut Cursor::new(huge), ".reason").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    }

    #[test]
    fn an_error_of_the_system_is_kept() {
        struct Refused;
        impl Read for Refused {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                Err(io::ErrorKind::PermissionDenied.into())
            }
        }
        impl Seek for Refused {
            fn seek(&mut self, _: SeekFrom) -> io::Result<u64> {
                Ok(1 << 20)
            }
        }
        let error = section(&mut Refused, ".reason").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
    }

    /// Counts the octets that are read.
    struct Counted<F>(F, usize);

    impl<F: Read> Read for Counted<F> {
        fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
            let len = self.0.read(to)?;
            self.1 += len;
            Ok(len)
        }
    }

    impl<F: Seek> Seek for Counted<F> {
        fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
            self.0.seek(to)
        }
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_long_file_is_not_read() {
        let own = std::fs::File::open(std::env::current_exe().unwrap()).unwrap();
        let len = own.metadata().unwrap().len();
        let mut own = Counted(own, 0);
        let interpreter = section(&mut own, ".interp").unwrap();
        assert!(interpreter.is_some_and(|path| path.starts_with(b"/")));
        assert_eq!(section(&mut own, ".softnd.empty").unwrap(), None);
        assert!(own.1 < 64 << 10 && (own.1 as u64) < len / 10, "{}", own.1);
    }
}
