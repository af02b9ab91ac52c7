//! Reads the modules of files.

use std::fs;
use std::path::{Path, PathBuf};

use syn::visit::Visit as _;

use super::syntax::{self, Code};
use super::{Crate, Module, Names};

impl Crate {
    /// Reads the file of the module `at`, whose child modules are in the folder `children`.
    pub(super) fn read_file(&mut self, file: &Path, children: &Path, at: Names) {
        let text = fs::read_to_string(file)
            .unwrap_or_else(|error| panic!("cannot read {}: {error}", file.display()));
        let parsed = syn::parse_file(&text)
            .unwrap_or_else(|error| panic!("cannot parse {}: {error}", file.display()));
        if syntax::is_left_out(&parsed.attrs) {
            return;
        }
        let number = self.files.len();
        self.files.push(file.to_owned());
        self.read_items(&parsed.items, number, children, at);
    }

    fn read_items(&mut self, items: &[syn::Item], file: usize, children: &Path, at: Names) {
        let mut code = Code::default();
        let mut inner = Vec::new();
        let mut module = Module {
            file,
            ..Module::default()
        };
        for item in items {
            if syntax::is_left_out(syntax::attributes(item)) {
                continue;
            }
            match item {
                syn::Item::Mod(child) => {
                    code.has_unsafe |= child.unsafety.is_some();
                    inner.push(child);
                }
                item => {
                    module.items.extend(syntax::defined(item));
                    code.visit_item(item);
                }
            }
        }
        module.mentions = code.paths;
        module.functions = code.functions;
        module.methods = code.methods;
        module.has_unsafe = code.has_unsafe;
        for import in code.imports {
            // A re-export is not a use.
            if import.is_private {
                module.mentions.insert(import.path.clone());
            }
            match import.name {
                Some(name) => drop(module.imports.entry(name).or_insert(import.path)),
                None => module.globs.push(import.path),
            }
        }
        self.modules.insert(at.clone(), module);
        for child in inner {
            let name = child.ident.to_string();
            let folder = children.join(&name);
            let path = [&at[..], &[name]].concat();
            match &child.content {
                Some((_, items)) => self.read_items(items, file, &folder, path),
                None => {
                    let source = source_of(child, children, &self.files[file]);
                    self.read_file(&source, &folder, path);
                }
            }
        }
    }
}

/// The file of a module that is declared in the file `parent`, and whose siblings are in `folder`.
fn source_of(child: &syn::ItemMod, folder: &Path, parent: &Path) -> PathBuf {
    if let Some(path) = syntax::path_attribute(child) {
        return parent.with_file_name(path);
    }
    let name = child.ident.to_string();
    let beside = folder.join(format!("{name}.rs"));
    if beside.is_file() {
        beside
    } else {
        folder.join(name).join("mod.rs")
    }
}
