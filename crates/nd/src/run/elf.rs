//! Finds one section of an ELF file, and the libraries that it needs, without reading the rest of the file.

use std::io::{self, Read, Seek, SeekFrom};

/// The most octets of a table or of the section; a file with a larger one is not one of our libraries.
const LONGEST: u64 = 1 << 20;
/// The most octets of the name of a library.
const LONGEST_NAME: u64 = 256;

/// Where the numbers are, in files of 32 or of 64 bits: offsets within the header of the file and within that of a section.
struct Layout {
    /// The octets of an offset or a size.
    word: usize,
    header: usize,
    sections: usize,
    section_len: usize,
    section_count: usize,
    names: usize,
    offset: usize,
    size: usize,
}

const BITS_32: Layout = Layout {
    word: 4,
    header: 52,
    sections: 0x20,
    section_len: 0x2E,
    section_count: 0x30,
    names: 0x32,
    offset: 0x10,
    size: 0x14,
};

const BITS_64: Layout = Layout {
    word: 8,
    header: 64,
    sections: 0x28,
    section_len: 0x3A,
    section_count: 0x3C,
    names: 0x3E,
    offset: 0x18,
    size: 0x20,
};

/// The form of a file's numbers.
struct Form {
    layout: &'static Layout,
    is_big_endian: bool,
}

impl Form {
    /// Reads what every ELF file begins with; `None` for other files.
    fn of(start: &[u8]) -> Option<Self> {
        let [0x7F, b'E', b'L', b'F', class, order, ..] = start else {
            return None;
        };
        let layout = match class {
            1 => &BITS_32,
            2 => &BITS_64,
            _ => return None,
        };
        let is_big_endian = match order {
            1 => false,
            2 => true,
            _ => return None,
        };
        Some(Self {
            layout,
            is_big_endian,
        })
    }

    /// The number of `len` octets, at most 8, at a place.
    fn number(&self, octets: &[u8], at: usize, len: usize) -> Option<u64> {
        let octets = octets.get(at..at.checked_add(len)?)?;
        let shifted = |value: u64, octet: &u8| value << 8 | u64::from(*octet);
        Some(match self.is_big_endian {
            true => octets.iter().fold(0, shifted),
            false => octets.iter().rev().fold(0, shifted),
        })
    }

    /// The place of a section in the file, from its header: the offset and the size.
    fn place(&self, header: &[u8]) -> Option<(u64, u64)> {
        let Layout {
            word, offset, size, ..
        } = *self.layout;
        let offset = self.number(header, offset, word)?;
        Some((offset, self.number(header, size, word)?))
    }
}

fn read_at(file: &mut (impl Read + Seek), (offset, len): (u64, u64)) -> io::Result<Vec<u8>> {
    if len > LONGEST {
        return Err(io::ErrorKind::InvalidData.into());
    }
    file.seek(SeekFrom::Start(offset))?;
    let mut octets = Vec::new();
    file.take(len).read_to_end(&mut octets)?;
    Ok(octets)
}

/// The octets of the section with this name. `None` if the file has none, or is no ELF file.
pub(super) fn section(file: &mut (impl Read + Seek), name: &str) -> io::Result<Option<Vec<u8>>> {
    let place = place_of(file, name)?;
    place.map(|place| read_at(file, place)).transpose()
}

/// The names of the libraries that a program of 64 bits needs, each up to [`LONGEST_NAME`] octets.
pub(super) fn needed(file: &mut (impl Read + Seek)) -> io::Result<Vec<Vec<u8>>> {
    const NEEDED: u64 = 1;
    let dynamic = section(file, ".dynamic")?.unwrap_or_default();
    let Some((names, names_len)) = place_of(file, ".dynstr")? else {
        return Ok(Vec::new());
    };
    let (words, _) = dynamic.as_chunks::<8>();
    let words = words.iter().map(|word| u64::from_le_bytes(*word));
    let words: Vec<u64> = words.collect();
    let entries = words.chunks_exact(2).filter(|entry| entry[0] == NEEDED);
    let offsets = entries.map(|entry| entry[1]);
    let offsets = offsets.filter(|offset| *offset < names_len);
    let name = |offset| {
        let mut name = read_at(file, (names.saturating_add(offset), LONGEST_NAME))?;
        let len = name.iter().position(|octet| *octet == 0);
        name.truncate(len.unwrap_or(name.len()));
        Ok(name)
    };
    offsets.map(name).collect()
}

fn place_of(file: &mut (impl Read + Seek), name: &str) -> io::Result<Option<(u64, u64)>> {
    let start = read_at(file, (0, BITS_64.header as u64))?;
    let Some(form) = Form::of(&start) else {
        return Ok(None);
    };
    let layout = form.layout;
    let table = |octets: &[u8]| {
        let short = |at| form.number(octets, at, 2);
        let offset = form.number(octets, layout.sections, layout.word)?;
        let (len, count) = (short(layout.section_len)?, short(layout.section_count)?);
        Some((offset, len, count, short(layout.names)?))
    };
    let header = start.get(..layout.header);
    let Some((offset, len, count, names)) = header.and_then(table).filter(|table| table.1 > 0)
    else {
        return Ok(None);
    };
    let headers = read_at(file, (offset, len * count))?;
    let mut headers = headers.chunks_exact(usize::try_from(len).unwrap_or(usize::MAX));
    let nth = usize::try_from(names).unwrap_or(usize::MAX);
    let Some(names) = headers
        .clone()
        .nth(nth)
        .and_then(|header| form.place(header))
    else {
        return Ok(None);
    };
    let names = read_at(file, names)?;
    let is_wanted = |header: &&[u8]| {
        let at = form.number(header, 0, 4)?;
        let own = names.get(usize::try_from(at).ok()?..)?;
        let end = own.iter().position(|octet| *octet == 0)?;
        Some(&own[..end] == name.as_bytes())
    };
    let found = headers.find(|header| is_wanted(header) == Some(true));
    Ok(found.and_then(|header| form.place(header)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;

    /// A file with two sections: the names, and one with a text.
    fn file(layout: &Layout, is_big_endian: bool) -> Vec<u8> {
        let mut file = vec![0; 0x200];
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
        let class = if layout.word == 8 { 2 } else { 1 };
        let order = if is_big_endian { 2 } else { 1 };
        file[..6].copy_from_slice(&[0x7F, b'E', b'L', b'F', class, order]);
        let section_len = layout.size + 2 * layout.word;
        put(&mut file, layout.sections, layout.word, 0x80);
        put(&mut file, layout.section_len, 2, section_len as u64);
        put(&mut file, layout.section_count, 2, 2);
        put(&mut file, layout.names, 2, 1);
        let names = b"\0.reason\0.names\0";
        file[0x180..][..names.len()].copy_from_slice(names);
        file[0x1C0..][..9].copy_from_slice(b"no linker");
        for (index, (name, offset, size)) in [(1, 0x1C0, 9), (9, 0x180, names.len() as u64)]
            .into_iter()
            .enumerate()
        {
            let at = 0x80 + index * section_len;
            put(&mut file, at, 4, name);
            put(&mut file, at + layout.offset, layout.word, offset);
            put(&mut file, at + layout.size, layout.word, size);
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
    fn files_that_are_cut_or_no_elf_files_have_no_section() {
        let whole = file(&BITS_64, false);
        for len in 0..0x1C0 {
            let found = section(&mut Cursor::new(&whole[..len]), ".reason");
            let found = found.ok().flatten();
            assert!(found.is_none_or(|found| found.is_empty()), "{len}");
        }
        assert_eq!(
            section(&mut Cursor::new(b"#!/bin/sh\n"), ".x").unwrap(),
            None
        );
        // A table of a size that no library has.
        let mut huge = whole;
        huge[BITS_64.section_len..][..4].copy_from_slice(&[0xFF; 4]);
        assert!(section(&mut Cursor::new(huge), ".reason").is_err());
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
