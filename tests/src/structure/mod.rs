//! The structure of a crate, read from its syntax: which file depends on which, and what each file uses of other crates.
//!
//! A file depends on the files that define the names which it uses. Re-exports are followed to the definition. So a parent
//! module may collect what its children define: a `pub use` is no dependency, unless the file also uses the name itself.
//! Several modules in one file count as one. Code that is compiled only for tests or models is left out.
//!
//! An `impl` block may be in another file than its type. `Type::function`, and within the `impl` blocks of a type `Self::function` and
//! `self.method()`, depend on the file that has the function. The type of any other value is not known here, so other method calls are no
//! dependencies by themselves. The code that obtained the value has named its type, or a function that returns it.
//!
//! Arguments of macros and attributes count where they look like paths.

mod read;
mod syntax;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

/// The names of a path, as it is written. The first one is empty where the path begins with `::`.
type Names = Vec<String>;

/// One module: its file, and what it defines, imports and names.
#[derive(Debug, Default)]
struct Module {
    file: usize,
    items: BTreeSet<String>,
    /// The imports of `use`, by the name that they have in the module.
    imports: BTreeMap<String, Names>,
    /// The modules that `use` imports as a whole.
    globs: Vec<Names>,
    /// The paths in the code, and in private imports.
    mentions: BTreeSet<Names>,
    /// The functions of `impl` blocks without a trait, by the path of the type.
    functions: Vec<(Names, BTreeSet<String>)>,
    /// The names of the methods it calls.
    methods: BTreeSet<String>,
    has_unsafe: bool,
}

/// The meaning of a path.
#[derive(Debug, PartialEq, Eq)]
enum Meaning {
    /// Something that this file of the crate defines: a module, or an item and perhaps a part of the item.
    Here(usize, Option<Part>),
    /// Something of another crate, or a name that no module defines.
    Elsewhere(Names),
}

/// An item, by the path of its module and its name, with what the path has behind it: an associated function, a variant.
#[derive(Debug, PartialEq, Eq)]
struct Part {
    item: (Names, String),
    behind: Option<String>,
}

/// The modules of one crate.
#[derive(Debug, Default)]
pub struct Crate {
    files: Vec<PathBuf>,
    modules: BTreeMap<Names, Module>,
    /// Which files have the functions of which item.
    functions: BTreeMap<(Names, String), BTreeMap<String, usize>>,
}

impl Crate {
    /// Reads the crates of a package: its library and its programs.
    ///
    /// # Panics
    ///
    /// If a file cannot be read or parsed, or if the package has no crates.
    pub fn of_package(folder: &Path) -> Vec<Self> {
        let mut roots: Vec<_> = ["src/lib.rs", "src/main.rs"]
            .map(|root| folder.join(root))
            .into_iter()
            .filter(|root| root.is_file())
            .collect();
        for entry in fs::read_dir(folder.join("src/bin")).into_iter().flatten() {
            let path = entry.expect("an entry of src/bin").path();
            let root = if path.is_dir() {
                path.join("main.rs")
            } else {
                path
            };
            roots.extend(Some(root).filter(|root| root.extension().is_some_and(|it| it == "rs")));
        }
        assert!(!roots.is_empty(), "{} has no crate", folder.display());
        roots.iter().map(|root| Self::read(root)).collect()
    }

    /// Reads the crate whose sources begin in the file `root`.
    ///
    /// # Panics
    ///
    /// If a file cannot be read or parsed.
    pub fn read(root: &Path) -> Self {
        let mut found = Self::default();
        found.read_file(root, &root.with_file_name(""), Vec::new());
        found.functions = found.all_functions();
        found
    }

    fn all_functions(&self) -> BTreeMap<(Names, String), BTreeMap<String, usize>> {
        let mut all = BTreeMap::<_, BTreeMap<_, _>>::new();
        for (at, module) in &self.modules {
            for (path, names) in &module.functions {
                if let Meaning::Here(_, Some(part)) = self.resolve(at, path) {
                    let functions = all.entry(part.item).or_default();
                    functions.extend(names.iter().map(|name| (name.clone(), module.file)));
                }
            }
        }
        all
    }

    /// The files, in the order in which they were found.
    pub fn files(&self) -> &[PathBuf] {
        &self.files
    }

    /// The meaning of a path in the module `at`.
    fn resolve(&self, at: &[String], path: &[String]) -> Meaning {
        self.resolve_below(at, path, 0)
    }

    fn resolve_below(&self, at: &[String], path: &[String], depth: usize) -> Meaning {
        let elsewhere = |path: &[String]| Meaning::Elsewhere(path.to_vec());
        let Some(first) = path.first() else {
            return elsewhere(path);
        };
        let mut base = at;
        let mut rest = path;
        match first.as_str() {
            "" => return elsewhere(&path[1..]),
            "crate" => (base, rest) = (&[], &path[1..]),
            "self" => rest = &path[1..],
            "super" => {}
            _ => {
                let found = self.find(at, path, depth);
                return found.unwrap_or_else(|| elsewhere(path));
            }
        }
        while rest.first().is_some_and(|first| first == "super") {
            base = &base[..base.len().saturating_sub(1)];
            rest = &rest[1..];
        }
        // A name that a macro defines is not found. The module itself then counts as its place.
        let file = self.modules.get(base).map(|module| module.file);
        self.find(base, rest, depth)
            .or(file.map(|file| Meaning::Here(file, None)))
            .unwrap_or_else(|| elsewhere(path))
    }

    /// The meaning of `path` in the module `at`, if the module has the first name of the path.
    fn find(&self, at: &[String], path: &[String], depth: usize) -> Option<Meaning> {
        // Imports may lead to each other in a circle. The compiler refuses to use such imports.
        if depth > 32 {
            return None;
        }
        let module = self.modules.get(at)?;
        let Some(name) = path.first() else {
            return Some(Meaning::Here(module.file, None));
        };
        let child = [at, &path[..1]].concat();
        if let Some(inner) = self.modules.get(&child) {
            let found = self.find(&child, &path[1..], depth + 1);
            return Some(found.unwrap_or(Meaning::Here(inner.file, None)));
        }
        if module.items.contains(name) {
            let part = Part {
                item: (at.to_vec(), name.clone()),
                behind: path.get(1).cloned(),
            };
            return Some(Meaning::Here(module.file, Some(part)));
        }
        if let Some(from) = module.imports.get(name) {
            let path = [&from[..], &path[1..]].concat();
            if from.first() == Some(name) {
                // The first name can only be that of a crate.
                return Some(Meaning::Elsewhere(path));
            }
            return Some(self.resolve_below(at, &path, depth + 1));
        }
        module.globs.iter().find_map(|glob| {
            let from = self.module_of(at, glob)?;
            self.find(from, path, depth + 1)
        })
    }

    /// The module of this crate that a path in the module `at` leads to, without imports.
    fn module_of(&self, at: &[String], path: &[String]) -> Option<&Names> {
        let mut found = at.to_vec();
        for (index, name) in path.iter().enumerate() {
            match name.as_str() {
                "crate" if index == 0 => found.clear(),
                "self" if index == 0 => {}
                "super" => drop(found.pop()?),
                name => found.push(name.to_owned()),
            }
        }
        self.modules.get_key_value(&found).map(|(path, _)| path)
    }

    /// The dependencies between files, with the names that cause them, by pairs of indices into [`files`](Self::files). The functions of a
    /// unit count as if they were in its type's file.
    fn arrows(&self, units: &[&str]) -> BTreeMap<(usize, usize), BTreeSet<String>> {
        let mut arrows = BTreeMap::<_, BTreeSet<_>>::new();
        for (at, module) in &self.modules {
            for path in &module.mentions {
                // A single name that a child module has is that of a local variable, because no expression is a module.
                let is_variable = path.len() == 1 && {
                    let child = [&at[..], path].concat();
                    self.modules.contains_key(&child)
                };
                let Meaning::Here(file, part) = self.resolve(at, path) else {
                    continue;
                };
                let function = part.and_then(|Part { item, behind }| {
                    let functions = self.functions.get(&item)?;
                    let name = [&item.0[..], &[item.1]].concat().join("::");
                    let function = functions.get(&behind?).copied();
                    function.filter(|_| !units.contains(&name.as_str()))
                });
                for to in [Some(file), function].into_iter().flatten() {
                    if to != module.file && !is_variable {
                        let names = arrows.entry((module.file, to)).or_default();
                        names.insert(path.join("::"));
                    }
                }
            }
        }
        arrows
    }

    /// The dependencies between files: the first one uses names of the second.
    pub fn dependencies(&self) -> Vec<(&Path, &Path)> {
        let arrows = self.arrows(&[]).into_keys();
        arrows
            .map(|(from, to)| (self.file(from), self.file(to)))
            .collect()
    }

    /// The groups of files that depend on each other in a circle.
    ///
    /// `units` are types, by their paths from the crate's root, whose `impl` blocks may be in several files that call each other: their
    /// functions count as if they were in the type's file.
    pub fn circles(&self, units: &[&str]) -> Vec<Circle<'_>> {
        let arrows = self.arrows(units);
        let reach: Vec<_> = (0..self.files.len())
            .map(|from| reachable(&arrows, from))
            .collect();
        let mut seen = BTreeSet::<usize>::new();
        let mut circles = Vec::new();
        for from in 0..self.files.len() {
            if seen.contains(&from) || !reach[from].contains(&from) {
                continue;
            }
            let members: BTreeSet<_> = reach[from]
                .iter()
                .copied()
                .filter(|to| reach[*to].contains(&from))
                .collect();
            seen.extend(&members);
            let inside = arrows
                .iter()
                .filter(|((from, to), _)| members.contains(from) && members.contains(to));
            circles.push(Circle {
                files: members.iter().map(|at| self.file(*at)).collect(),
                arrows: inside
                    .map(|((from, to), names)| (self.file(*from), self.file(*to), names.clone()))
                    .collect(),
            });
        }
        circles
    }

    fn file(&self, number: usize) -> &Path {
        &self.files[number]
    }

    /// The names of other crates that each file uses.
    pub fn uses(&self) -> BTreeMap<&Path, Uses> {
        let mut all = BTreeMap::<_, Uses>::new();
        for (at, module) in &self.modules {
            let uses = all.entry(self.file(module.file)).or_default();
            uses.has_unsafe |= module.has_unsafe;
            uses.methods.extend(module.methods.iter().cloned());
            for path in &module.mentions {
                if let Meaning::Elsewhere(path) = self.resolve(at, path) {
                    uses.paths.insert(path.join("::"));
                }
            }
            for glob in &module.globs {
                if let Meaning::Elsewhere(path) = self.resolve(at, glob) {
                    uses.paths.insert(path.join("::") + "::*");
                }
            }
        }
        all
    }
}

/// Files that depend on each other in a circle.
#[derive(Debug)]
pub struct Circle<'a> {
    /// The files.
    pub files: BTreeSet<&'a Path>,
    /// The dependencies: the first file uses these names of the second.
    pub arrows: Vec<(&'a Path, &'a Path, BTreeSet<String>)>,
}

impl Circle<'_> {
    /// One line for each dependency in the circle, with paths relative to a folder.
    pub fn describe(&self, folder: &Path) -> String {
        let short = |file: &Path| file.strip_prefix(folder).unwrap_or(file).to_owned();
        let mut text = String::new();
        for (from, to, names) in &self.arrows {
            // `Phase` is enough, and `Phase::Closed` is not shown as well.
            let is_within = |name: &str, other: &str| {
                let rest = name.strip_prefix(other);
                rest.is_some_and(|rest| rest.starts_with("::"))
            };
            let names = names
                .iter()
                .filter(|name| !names.iter().any(|other| is_within(name, other)));
            let names: Vec<_> = names.map(String::as_str).collect();
            let (from, to) = (short(from), short(to));
            let names = names.join(", ");
            let _ = writeln!(text, "    {} -> {}: {names}", from.display(), to.display());
        }
        text
    }
}

/// The names of other crates that a file uses.
#[derive(Debug, Default)]
pub struct Uses {
    /// The paths, with imports resolved: `std::thread::spawn` for `thread::spawn` below `use std::thread`, and
    /// `std::thread::*` where a whole module is imported. Names that no module defines, such as those of local variables,
    /// are among them, and `extern::getpid` for a function or a variable of C that the code declares itself.
    pub paths: BTreeSet<String>,
    /// The names of all methods that are called, of whatever type.
    pub methods: BTreeSet<String>,
    /// Whether the code has the word `unsafe`.
    pub has_unsafe: bool,
}

/// The files that can be reached from a file in one step or more.
fn reachable<T>(arrows: &BTreeMap<(usize, usize), T>, from: usize) -> BTreeSet<usize> {
    let mut found = BTreeSet::new();
    let mut next = vec![from];
    while let Some(at) = next.pop() {
        for ((_, to), _) in arrows.range((at, 0)..(at + 1, 0)) {
            if found.insert(*to) {
                next.push(*to);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests;
