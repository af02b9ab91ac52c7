//! Compilers for C and C++, and their output.

use std::env;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use libloading::Library;
use tempfile::TempDir;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Language {
    C,
    Cpp,
}

/// A compiler that the header has to suit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Compiler {
    program: &'static str,
    pub(crate) language: Language,
}

const fn compiler(program: &'static str, language: Language) -> Compiler {
    Compiler { program, language }
}

/// Compilers for this system.
pub(crate) const HOST: [Compiler; 4] = [
    compiler("gcc", Language::C),
    compiler("g++", Language::Cpp),
    compiler("clang", Language::C),
    compiler("clang++", Language::Cpp),
];

/// Compilers for Windows. Their programs are not run.
pub(crate) const WINDOWS: [Compiler; 2] = [
    compiler("x86_64-w64-mingw32-gcc", Language::C),
    compiler("x86_64-w64-mingw32-g++", Language::Cpp),
];

/// The folder of the header.
pub(crate) fn include() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../include")
}

/// The header itself.
pub(crate) fn header() -> String {
    fs::read_to_string(include().join("netdirect.h")).expect("the header is in include")
}

impl Compiler {
    /// Returns true if the compiler is installed. Otherwise names the test and the compiler on standard error.
    ///
    /// # Panics
    /// If it is missing and `CI=true` is set.
    pub(crate) fn is_here(self) -> bool {
        let path = env::var_os("PATH").unwrap_or_default();
        if env::split_paths(&path).any(|folder| folder.join(self.program).is_file()) {
            return true;
        }
        let why = format!("{} is not installed", self.program);
        assert!(
            env::var("CI").as_deref() != Ok("true"),
            "{why}, and CI=true allows no test to be skipped"
        );
        let test = thread::current();
        let test = test.name().unwrap_or("a test");
        // Not `eprintln!`, because the test harness hides its output when the test passes.
        let _ = writeln!(std::io::stderr(), "skipped: {test}: {why}");
        false
    }

    /// Compiles a source text with these further arguments.
    ///
    /// # Panics
    /// If the compiler refuses the text or has a warning.
    fn compile(self, source: &str, arguments: &[&str]) -> Output {
        let folder = tempfile::tempdir().expect("a folder can be made");
        let (name, standard) = match self.language {
            Language::C => ("source.c", "-std=c11"),
            Language::Cpp => ("source.cpp", "-std=c++17"),
        };
        let path = folder.path().join(name);
        fs::write(&path, source).expect("a file can be written");
        let file = folder.path().join("output");
        let output = Command::new(self.program)
            .args([standard, "-Wall", "-Wextra", "-Werror", "-pedantic", "-O2"])
            .args(arguments)
            .arg("-I")
            .arg(include())
            .arg("-o")
            .args([&file, &path])
            .output()
            .expect("the compiler starts");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}: {said}", self.program);
        Output { folder, file }
    }

    /// Compiles a source text to an object file, and returns the file's octets.
    pub(crate) fn object(self, source: &str, arguments: &[&str]) -> Vec<u8> {
        let output = self.compile(source, &[&["-c"], arguments].concat());
        fs::read(&output.file).expect("the compiler has written the file")
    }

    /// Compiles a source text to a shared library with the further arguments in `SOFTND_C_FLAGS`, and loads it.
    pub(crate) fn load(self, source: &str) -> Loaded {
        let flags = env::var("SOFTND_C_FLAGS").unwrap_or_default();
        let flags: Vec<_> = flags.split_whitespace().collect();
        let output = self.compile(source, &[&["-shared", "-fPIC"], &flags[..]].concat());
        // SAFETY: the library's initialisers are those of C++ objects without user-defined constructors.
        let library = unsafe { Library::new(&output.file) };
        Loaded {
            library: library.unwrap_or_else(|error| panic!("{}: {error}", self.program)),
            _folder: output.folder,
        }
    }
}

struct Output {
    folder: TempDir,
    file: PathBuf,
}

/// A library made by a compiler.
pub(crate) struct Loaded {
    library: Library,
    _folder: TempDir,
}

impl Loaded {
    /// The function `name`.
    ///
    /// # Safety
    /// The function's type has to be `F`, a function pointer that is used only as long as the library lives.
    pub(crate) unsafe fn function<F: Copy>(&self, name: &str) -> F {
        // SAFETY: the caller guarantees the type.
        let symbol = unsafe { self.library.get::<F>(name.as_bytes()) };
        *symbol.unwrap_or_else(|error| panic!("{name}: {error}"))
    }
}
