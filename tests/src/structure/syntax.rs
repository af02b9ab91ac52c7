//! Finds the names in the code of one module, and decides which code counts.

use std::collections::BTreeSet;

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};

use super::Names;

/// One import of a `use`.
#[derive(Debug)]
pub(super) struct Import {
    pub(super) path: Names,
    /// The name in the module. `None` if everything is imported.
    pub(super) name: Option<String>,
    /// Whether only the module and its children see the import.
    pub(super) is_private: bool,
}

/// The names in code, collected by a walk over it.
#[derive(Debug, Default)]
pub(super) struct Code {
    pub(super) paths: BTreeSet<Names>,
    pub(super) imports: Vec<Import>,
    pub(super) methods: BTreeSet<String>,
    /// The functions of `impl` blocks without a trait, by the path of the type.
    pub(super) functions: Vec<(Names, BTreeSet<String>)>,
    pub(super) has_unsafe: bool,
    /// The type of `Self`.
    own: Option<Names>,
}

impl Code {
    /// Notes that a function of the type of `Self` is used.
    fn use_own(&mut self, function: String) {
        if let Some(own) = &self.own {
            self.paths.insert([&own[..], &[function]].concat());
        }
    }

    /// Collects what looks like a path in the arguments of a macro or an attribute.
    fn scan(&mut self, tokens: TokenStream) {
        let mut path = Names::new();
        let mut colons = 0;
        let mut is_member = false;
        for token in tokens {
            match token {
                TokenTree::Ident(name) => {
                    let name = name.to_string();
                    self.has_unsafe |= name == "unsafe";
                    if colons != 2 {
                        self.keep(&mut path);
                    } else if path.is_empty() {
                        path.push(String::new());
                    }
                    if !is_member {
                        path.push(name);
                    }
                    (colons, is_member) = (0, false);
                }
                TokenTree::Punct(sign) => {
                    colons = if sign.as_char() == ':' { colons + 1 } else { 0 };
                    if colons == 0 {
                        self.keep(&mut path);
                    }
                    is_member = sign.as_char() == '.';
                }
                TokenTree::Group(group) => {
                    self.keep(&mut path);
                    (colons, is_member) = (0, false);
                    self.scan(group.stream());
                }
                TokenTree::Literal(_) => {
                    self.keep(&mut path);
                    (colons, is_member) = (0, false);
                }
            }
        }
        self.keep(&mut path);
    }

    /// Keeps a complete path. The words of `pub(crate)` and of `self.x` are not paths.
    fn keep(&mut self, path: &mut Names) {
        let path = std::mem::take(path);
        let is_word = |name: &String| ["crate", "self", "super"].contains(&name.as_str());
        if !path.iter().all(is_word) {
            self.paths.insert(path);
        }
    }

    fn import(&mut self, tree: &syn::UseTree, before: &mut Names, is_private: bool) {
        let with = |name: &syn::Ident| [&before[..], &[name.to_string()]].concat();
        let (path, name) = match tree {
            syn::UseTree::Path(path) => {
                before.push(path.ident.to_string());
                self.import(&path.tree, before, is_private);
                before.pop();
                return;
            }
            syn::UseTree::Group(group) => {
                for tree in &group.items {
                    self.import(tree, before, is_private);
                }
                return;
            }
            syn::UseTree::Name(name) if name.ident == "self" => {
                (before.clone(), before.last().cloned())
            }
            syn::UseTree::Rename(name) if name.ident == "self" => {
                (before.clone(), Some(name.rename.to_string()))
            }
            syn::UseTree::Name(name) => (with(&name.ident), Some(name.ident.to_string())),
            syn::UseTree::Rename(name) => (with(&name.ident), Some(name.rename.to_string())),
            syn::UseTree::Glob(_) => (before.clone(), None),
        };
        self.imports.push(Import {
            path,
            name,
            is_private,
        });
    }
}

impl<'a> Visit<'a> for Code {
    fn visit_item(&mut self, item: &'a syn::Item) {
        if !is_left_out(attributes(item)) {
            visit::visit_item(self, item);
        }
    }

    fn visit_impl_item(&mut self, item: &'a syn::ImplItem) {
        let attributes: &[_] = match item {
            syn::ImplItem::Const(item) => &item.attrs,
            syn::ImplItem::Fn(item) => &item.attrs,
            syn::ImplItem::Type(item) => &item.attrs,
            syn::ImplItem::Macro(item) => &item.attrs,
            _ => &[],
        };
        if !is_left_out(attributes) {
            visit::visit_impl_item(self, item);
        }
    }

    fn visit_local(&mut self, local: &'a syn::Local) {
        if !is_left_out(&local.attrs) {
            visit::visit_local(self, local);
        }
    }

    fn visit_field(&mut self, field: &'a syn::Field) {
        if !is_left_out(&field.attrs) {
            visit::visit_field(self, field);
        }
    }

    fn visit_field_value(&mut self, field: &'a syn::FieldValue) {
        if !is_left_out(&field.attrs) {
            visit::visit_field_value(self, field);
        }
    }

    fn visit_arm(&mut self, arm: &'a syn::Arm) {
        if !is_left_out(&arm.attrs) {
            visit::visit_arm(self, arm);
        }
    }

    fn visit_item_use(&mut self, item: &'a syn::ItemUse) {
        let is_private = matches!(item.vis, syn::Visibility::Inherited);
        let mut before = Names::new();
        before.extend(item.leading_colon.as_ref().map(|_| String::new()));
        self.import(&item.tree, &mut before, is_private);
    }

    fn visit_path(&mut self, path: &'a syn::Path) {
        let first = path.leading_colon.as_ref().map(|_| String::new());
        let names = path.segments.iter().map(|name| name.ident.to_string());
        let names: Names = first.into_iter().chain(names).collect();
        match &names[..] {
            [own, function, ..] if own == "Self" => self.use_own(function.clone()),
            _ => drop(self.paths.insert(names)),
        }
        visit::visit_path(self, path);
    }

    /// A visibility names a module and uses nothing of it.
    fn visit_visibility(&mut self, _: &'a syn::Visibility) {}

    fn visit_attribute(&mut self, attribute: &'a syn::Attribute) {
        self.has_unsafe |= attribute.path().is_ident("unsafe");
        match &attribute.meta {
            syn::Meta::Path(_) => {}
            syn::Meta::List(list) => self.scan(list.tokens.clone()),
            syn::Meta::NameValue(pair) => self.visit_expr(&pair.value),
        }
    }

    fn visit_macro(&mut self, used: &'a syn::Macro) {
        self.visit_path(&used.path);
        self.scan(used.tokens.clone());
    }

    fn visit_expr_method_call(&mut self, call: &'a syn::ExprMethodCall) {
        self.methods.insert(call.method.to_string());
        if matches!(&*call.receiver, syn::Expr::Path(value) if value.path.is_ident("self")) {
            self.use_own(call.method.to_string());
        }
        visit::visit_expr_method_call(self, call);
    }

    fn visit_expr_unsafe(&mut self, block: &'a syn::ExprUnsafe) {
        self.has_unsafe = true;
        visit::visit_expr_unsafe(self, block);
    }

    fn visit_signature(&mut self, signature: &'a syn::Signature) {
        self.has_unsafe |= signature.unsafety.is_some();
        visit::visit_signature(self, signature);
    }

    fn visit_item_impl(&mut self, item: &'a syn::ItemImpl) {
        self.has_unsafe |= item.unsafety.is_some();
        let own = path_of(&item.self_ty);
        if let Some(own) = &own
            && item.trait_.is_none()
        {
            let functions = item.items.iter().filter_map(|item| match item {
                syn::ImplItem::Fn(item) => Some(item.sig.ident.to_string()),
                syn::ImplItem::Const(item) => Some(item.ident.to_string()),
                _ => None,
            });
            self.functions.push((own.clone(), functions.collect()));
        }
        let outer = std::mem::replace(&mut self.own, own);
        visit::visit_item_impl(self, item);
        self.own = outer;
    }

    fn visit_item_trait(&mut self, item: &'a syn::ItemTrait) {
        self.has_unsafe |= item.unsafety.is_some();
        visit::visit_item_trait(self, item);
    }

    fn visit_item_foreign_mod(&mut self, item: &'a syn::ItemForeignMod) {
        self.has_unsafe = true;
        for item in &item.items {
            let names = match item {
                syn::ForeignItem::Fn(function) => vec![function.sig.ident.to_string()],
                syn::ForeignItem::Static(variable) => vec![variable.ident.to_string()],
                // Functions that are `safe`.
                syn::ForeignItem::Verbatim(tokens) => defined_in(tokens.clone()),
                _ => Vec::new(),
            };
            let paths = names
                .into_iter()
                .map(|name| vec!["extern".to_owned(), name]);
            self.paths.extend(paths);
        }
        visit::visit_item_foreign_mod(self, item);
    }
}

/// The path of a type, or of the trait of `dyn Trait`.
fn path_of(typed: &syn::Type) -> Option<Names> {
    let path = match typed {
        syn::Type::Path(typed) => &typed.path,
        syn::Type::TraitObject(typed) => typed.bounds.iter().find_map(|bound| match bound {
            syn::TypeParamBound::Trait(bound) => Some(&bound.path),
            _ => None,
        })?,
        syn::Type::Paren(typed) => return path_of(&typed.elem),
        _ => return None,
    };
    let names = path.segments.iter().map(|name| name.ident.to_string());
    Some(names.collect())
}

/// The names that an item defines in its module.
pub(super) fn defined(item: &syn::Item) -> Vec<String> {
    let name = match item {
        syn::Item::Const(item) => &item.ident,
        syn::Item::Enum(item) => &item.ident,
        syn::Item::Fn(item) => &item.sig.ident,
        syn::Item::Static(item) => &item.ident,
        syn::Item::Struct(item) => &item.ident,
        syn::Item::Trait(item) => &item.ident,
        syn::Item::Type(item) => &item.ident,
        syn::Item::Union(item) => &item.ident,
        syn::Item::Macro(item) => match &item.ident {
            Some(name) => name,
            None => return defined_in(item.mac.tokens.clone()),
        },
        _ => return Vec::new(),
    };
    vec![name.to_string()]
}

/// The names of the items that a macro such as `bitflags!` is given.
fn defined_in(tokens: TokenStream) -> Vec<String> {
    let words = ["const", "enum", "fn", "static", "struct", "trait", "type"];
    let mut is_next = false;
    let mut names = Vec::new();
    for token in tokens {
        let name = match token {
            TokenTree::Ident(name) => name.to_string(),
            _ => String::new(),
        };
        let is_word = words.contains(&name.as_str());
        if is_next && !is_word && !name.is_empty() {
            names.push(name);
        }
        is_next = is_word;
    }
    names
}

/// The attributes of an item.
pub(super) fn attributes(item: &syn::Item) -> &[syn::Attribute] {
    match item {
        syn::Item::Const(item) => &item.attrs,
        syn::Item::Enum(item) => &item.attrs,
        syn::Item::ExternCrate(item) => &item.attrs,
        syn::Item::Fn(item) => &item.attrs,
        syn::Item::ForeignMod(item) => &item.attrs,
        syn::Item::Impl(item) => &item.attrs,
        syn::Item::Macro(item) => &item.attrs,
        syn::Item::Mod(item) => &item.attrs,
        syn::Item::Static(item) => &item.attrs,
        syn::Item::Struct(item) => &item.attrs,
        syn::Item::Trait(item) => &item.attrs,
        syn::Item::Type(item) => &item.attrs,
        syn::Item::Union(item) => &item.attrs,
        syn::Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

/// Returns true if these attributes leave an item out of all builds except those of tests and models.
pub(super) fn is_left_out(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let condition = attribute.path().is_ident("cfg")
            && attribute
                .parse_args::<syn::Meta>()
                .is_ok_and(|condition| holds(&condition) == Some(false));
        condition || attribute.path().is_ident("test")
    })
}

/// Whether a condition holds in a usual build. `None` if that differs from build to build.
fn holds(condition: &syn::Meta) -> Option<bool> {
    match condition {
        syn::Meta::Path(name) => {
            let special = ["test", "doctest", "loom", "miri", "fuzzing"];
            special
                .iter()
                .any(|other| name.is_ident(other))
                .then_some(false)
        }
        syn::Meta::NameValue(_) => None,
        syn::Meta::List(list) => {
            let parser = syn::punctuated::Punctuated::<syn::Meta, syn::Token![,]>::parse_terminated;
            let parts: Vec<_> = list
                .parse_args_with(parser)
                .ok()?
                .iter()
                .map(holds)
                .collect();
            let decided_by = |value| parts.contains(&Some(value)).then_some(value);
            let all_are = |value| parts.iter().all(|part| *part == Some(value));
            if list.path.is_ident("not") {
                parts.first()?.map(|value| !value)
            } else if list.path.is_ident("all") {
                decided_by(false).or(all_are(true).then_some(true))
            } else {
                decided_by(true).or(all_are(false).then_some(false))
            }
        }
    }
}

/// The file that `#[path = "…"]` names.
pub(super) fn path_attribute(module: &syn::ItemMod) -> Option<String> {
    module.attrs.iter().find_map(|attribute| {
        let pair = attribute.meta.require_name_value().ok()?;
        let syn::Expr::Lit(value) = &pair.value else {
            return None;
        };
        match &value.lit {
            syn::Lit::Str(path) if pair.path.is_ident("path") => Some(path.value()),
            _ => None,
        }
    })
}
