//! The public names of a crate, from what rustdoc writes about it as JSON.
//!
//! One line for each thing that a program can name: functions with their signatures, types with what is public of them, traits with their
//! methods, and which traits a type implements. What a crate re-exports from another one of the given crates is listed as its own, because
//! programs name it so. What is hidden from the documentation is not listed.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

/// The crates that programs name, whose public names `tests/public-api` lists.
pub const NAMED: [&str; 4] = ["netdirect", "netdirect-async", "netdirect-verbs", "softnd"];

/// The crates whose types those of [`NAMED`] show as their own.
pub const SHOWN: [&str; 2] = ["iwarp-io", "rdma-buffer"];

/// What rustdoc writes about several crates.
#[derive(Debug, Default)]
pub struct Documented(BTreeMap<String, Value>);

impl Documented {
    /// Adds what rustdoc has written about a crate. `name` has `_` in place of `-`.
    ///
    /// # Panics
    ///
    /// If this is not JSON.
    pub fn add(&mut self, name: &str, text: &str) {
        let json = serde_json::from_str(text).expect("rustdoc writes JSON");
        self.0.insert(name.to_owned(), json);
    }

    /// The lines of a crate, sorted.
    ///
    /// # Panics
    ///
    /// If the crate was not added, or rustdoc describes something that is not known here.
    #[must_use]
    pub fn names(&self, name: &str) -> BTreeSet<String> {
        let json = &self.0[name];
        let mut names = Names {
            all: self,
            lines: BTreeSet::new(),
        };
        let (_, root) = kind(item(json, &json["root"]).expect("a root"));
        names.module(json, root, name);
        names.lines
    }

    /// The item of another crate with this path, with that crate.
    fn foreign(&self, path: &Value) -> Option<(&Value, &Value)> {
        let json = self.0.get(path[0].as_str()?)?;
        let paths = json["paths"].as_object()?;
        let own = |at: &&Value| at["crate_id"] == 0 && at["path"] == *path;
        let (id, _) = paths.iter().find(|(_, at)| own(at))?;
        Some((json, json["index"].get(id)?))
    }
}

/// The lines that only one of two lists has: `-` for the first list, `+` for the second one.
#[must_use]
pub fn differences(old: &BTreeSet<String>, new: &BTreeSet<String>) -> Vec<String> {
    let gone = old.difference(new).map(|line| format!("- {line}"));
    let added = new.difference(old).map(|line| format!("+ {line}"));
    gone.chain(added).collect()
}

/// The item with this number, unless it is another crate's or hidden.
fn item<'a>(json: &'a Value, id: &Value) -> Option<&'a Value> {
    json["index"].get(id.as_u64()?.to_string())
}

/// What kind of item this is, with its description.
fn kind(item: &Value) -> (&str, &Value) {
    let inner = item["inner"].as_object().and_then(|it| it.iter().next());
    let (kind, inner) = inner.expect("an item has a kind");
    (kind, inner)
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn joined(parts: impl IntoIterator<Item = String>, between: &str) -> String {
    parts.into_iter().collect::<Vec<_>>().join(between)
}

struct Names<'a> {
    all: &'a Documented,
    lines: BTreeSet<String>,
}

impl Names<'_> {
    fn line(&mut self, line: String) {
        self.lines.insert(line);
    }

    fn module(&mut self, json: &Value, module: &Value, path: &str) {
        for id in list(&module["items"]) {
            let Some(item) = item(json, id) else {
                continue;
            };
            match kind(item) {
                ("use", exported) => self.exported(json, exported, path),
                ("impl", _) => {}
                _ => {
                    let name = item["name"].as_str().expect("a name");
                    self.item(json, item, &format!("{path}::{name}"));
                }
            }
        }
    }

    fn exported(&mut self, json: &Value, exported: &Value, path: &str) {
        let own = item(json, &exported["id"]).map(|item| (json, item));
        let found = own.or_else(|| {
            let id = exported["id"].as_u64()?.to_string();
            self.all.foreign(&json["paths"].get(id)?["path"])
        });
        let (name, source) = (&exported["name"], &exported["source"]);
        let name = name.as_str().expect("a name");
        match found {
            Some((json, item)) if exported["is_glob"] == true => {
                let (_, inner) = kind(item);
                self.module(json, inner, path);
            }
            Some((json, item)) => self.item(json, item, &format!("{path}::{name}")),
            None => self.line(format!(
                "use {path}::{name} = {}",
                source.as_str().unwrap_or("?")
            )),
        }
    }

    fn item(&mut self, json: &Value, item: &Value, path: &str) {
        let (kind, inner) = kind(item);
        let grows = list(&item["attrs"]).any(|attribute| attribute == "non_exhaustive");
        let may_grow = if grows { " (non-exhaustive)" } else { "" };
        let parameters = parameters(&inner["generics"]);
        match kind {
            "module" => {
                self.line(format!("mod {path}"));
                self.module(json, inner, path);
            }
            "function" => self.line(function(inner, path)),
            "constant" => self.line(format!("const {path}: {}", ty(&inner["type"]))),
            "static" => self.line(format!("static {path}: {}", ty(&inner["type"]))),
            "macro" | "proc_macro" => self.line(format!("macro {path}!")),
            "type_alias" => {
                let meant = ty(&inner["type"]);
                self.line(format!("type {path}{parameters} = {meant}"));
            }
            "struct" | "union" => {
                let fields = &inner["kind"]["plain"]["fields"];
                let fields = if kind == "union" {
                    &inner["fields"]
                } else {
                    fields
                };
                let tuple = &inner["kind"]["tuple"];
                let is_closed = inner["kind"]["plain"]["has_stripped_fields"] == true
                    || inner["has_stripped_fields"] == true
                    || list(tuple).any(Value::is_null);
                let closed = if is_closed { " (private fields)" } else { "" };
                self.line(format!("{kind} {path}{parameters}{closed}{may_grow}"));
                self.fields(json, fields, tuple, path);
                self.impls(json, &inner["impls"], path);
            }
            "enum" => {
                self.line(format!("enum {path}{parameters}{may_grow}"));
                for id in list(&inner["variants"]) {
                    let variant = self::item(json, id).expect("a variant");
                    let (_, shape) = self::kind(variant);
                    let name = variant["name"].as_str().expect("a name");
                    self.line(format!("variant {path}::{name}"));
                    let of_variant = &shape["kind"];
                    let fields = &of_variant["struct"]["fields"];
                    let path = format!("{path}::{name}");
                    self.fields(json, fields, &of_variant["tuple"], &path);
                }
                self.impls(json, &inner["impls"], path);
            }
            "trait" => {
                let bounds = bounds(&inner["bounds"]);
                let bounds = if bounds.is_empty() {
                    bounds
                } else {
                    format!(": {bounds}")
                };
                self.line(format!("trait {path}{parameters}{bounds}"));
                self.associated(json, &inner["items"], path, true);
            }
            _ => panic!("{path} is a {kind}, which is not known here"),
        }
    }

    fn fields(&mut self, json: &Value, named: &Value, numbered: &Value, path: &str) {
        for id in list(named).chain(list(numbered)) {
            let Some(field) = item(json, id) else {
                continue;
            };
            let (_, of_field) = kind(field);
            let name = field["name"].as_str().expect("a name");
            self.line(format!("field {path}.{name}: {}", ty(of_field)));
        }
    }

    fn impls(&mut self, json: &Value, impls: &Value, path: &str) {
        for id in list(impls) {
            let Some(item) = item(json, id) else {
                continue;
            };
            let (_, inner) = kind(item);
            if !inner["blanket_impl"].is_null() {
                continue;
            }
            if inner["trait"].is_null() {
                self.associated(json, &inner["items"], path, false);
                continue;
            }
            let implemented = path_of(&inner["trait"]);
            // Of what the compiler finds out by itself, this is what programs depend on.
            let is_of_compiler = inner["is_synthetic"] == true;
            if is_of_compiler && !["Send", "Sync"].contains(&&*implemented) {
                continue;
            }
            let not = if inner["is_negative"] == true {
                "!"
            } else {
                ""
            };
            self.line(format!("impl {not}{implemented} for {path}"));
        }
    }

    fn associated(&mut self, json: &Value, items: &Value, path: &str, is_trait: bool) {
        for id in list(items) {
            let Some(item) = item(json, id) else {
                continue;
            };
            let (kind, inner) = kind(item);
            let name = item["name"].as_str().expect("a name");
            let path = format!("{path}::{name}");
            let line = match kind {
                "function" => function(inner, &path),
                "assoc_const" => format!("const {path}: {}", ty(&inner["type"])),
                "assoc_type" => format!("type {path}"),
                _ => panic!("{path} is a {kind}, which is not known here"),
            };
            let is_given = inner["has_body"] == true || !inner["value"].is_null();
            let given = if is_trait && is_given {
                " (provided)"
            } else {
                ""
            };
            self.line(format!("{line}{given}"));
        }
    }
}

fn function(inner: &Value, path: &str) -> String {
    let header = &inner["header"];
    let words = [
        ("is_const", "const "),
        ("is_unsafe", "unsafe "),
        ("is_async", "async "),
    ];
    let words = words.iter().filter(|(key, _)| header[key] == true);
    let words = joined(words.map(|(_, word)| (*word).to_owned()), "");
    let generics = &inner["generics"];
    let signature = signature(&inner["sig"]);
    let conditions = conditions(&generics["where_predicates"]);
    format!(
        "{words}fn {path}{}{signature}{conditions}",
        parameters(generics)
    )
}

fn signature(sig: &Value) -> String {
    let inputs = list(&sig["inputs"]).map(|input| match (input[0].as_str(), ty(&input[1])) {
        (Some("self"), of_self) => match &*of_self {
            "Self" => "self".to_owned(),
            "&Self" => "&self".to_owned(),
            "&mut Self" => "&mut self".to_owned(),
            _ => format!("self: {of_self}"),
        },
        (_, of_input) => of_input,
    });
    let inputs = joined(inputs, ", ");
    match &sig["output"] {
        Value::Null => format!("({inputs})"),
        output => format!("({inputs}) -> {}", ty(output)),
    }
}

/// Type parameters, lifetimes and constants, without those that stand for `impl` in an argument.
fn parameters(generics: &Value) -> String {
    let parameters = list(&generics["params"]).filter_map(|parameter| {
        let name = parameter["name"].as_str().expect("a name");
        let kind = &parameter["kind"];
        if kind["type"]["is_synthetic"] == true {
            return None;
        }
        if let Some(of_constant) = kind.get("const") {
            return Some(format!("const {name}: {}", ty(&of_constant["type"])));
        }
        match bounds(&kind["type"]["bounds"]) {
            none if none.is_empty() => Some(name.to_owned()),
            bounds => Some(format!("{name}: {bounds}")),
        }
    });
    match joined(parameters, ", ") {
        none if none.is_empty() => none,
        parameters => format!("<{parameters}>"),
    }
}

fn conditions(predicates: &Value) -> String {
    let conditions = list(predicates).filter_map(|predicate| {
        let bound = predicate.get("bound_predicate")?;
        Some(format!(
            "{}: {}",
            ty(&bound["type"]),
            bounds(&bound["bounds"])
        ))
    });
    match joined(conditions, ", ") {
        none if none.is_empty() => none,
        conditions => format!(" where {conditions}"),
    }
}

fn bounds(bounds: &Value) -> String {
    let all = list(bounds).filter_map(|bound| {
        if let Some(lifetime) = bound["outlives"].as_str() {
            return Some(lifetime.to_owned());
        }
        let of_trait = bound.get("trait_bound")?;
        let maybe = if of_trait["modifier"] == "maybe" {
            "?"
        } else {
            ""
        };
        Some(format!("{maybe}{}", path_of(&of_trait["trait"])))
    });
    joined(all, " + ")
}

/// The last word of a path, with its arguments.
fn path_of(path: &Value) -> String {
    let name = path["path"].as_str().expect("a path");
    let name = name.rsplit("::").next().unwrap_or(name);
    format!("{name}{}", arguments(&path["args"]))
}

fn arguments(args: &Value) -> String {
    if let Some(inside) = args.get("parenthesized") {
        let inputs = joined(list(&inside["inputs"]).map(ty), ", ");
        return match &inside["output"] {
            Value::Null => format!("({inputs})"),
            output => format!("({inputs}) -> {}", ty(output)),
        };
    }
    let Some(inside) = args.get("angle_bracketed") else {
        return String::new();
    };
    let given = list(&inside["args"]).map(|argument| {
        if let Some(lifetime) = argument["lifetime"].as_str() {
            return lifetime.to_owned();
        }
        if let Some(constant) = argument.get("const") {
            return constant["expr"].as_str().unwrap_or("_").to_owned();
        }
        argument.get("type").map_or_else(|| "_".to_owned(), ty)
    });
    let bound = list(&inside["constraints"]).map(|constraint| {
        let name = constraint["name"].as_str().expect("a name");
        let binding = &constraint["binding"];
        match binding["equality"].get("type") {
            Some(equal) => format!("{name} = {}", ty(equal)),
            None => format!("{name}: {}", bounds(&binding["constraint"])),
        }
    });
    match joined(given.chain(bound), ", ") {
        none if none.is_empty() => none,
        all => format!("<{all}>"),
    }
}

/// A type as programs write it, with the last words of paths.
fn ty(value: &Value) -> String {
    if value == "infer" {
        return "_".to_owned();
    }
    let found = value.as_object().and_then(|it| it.iter().next());
    let Some((kind, inner)) = found else {
        panic!("{value} is no type")
    };
    let mutable = |yes, no| if inner["is_mutable"] == true { yes } else { no };
    match &**kind {
        "resolved_path" => path_of(inner),
        "generic" => inner.as_str().expect("a name").to_owned(),
        "primitive" if inner == "never" => "!".to_owned(),
        "primitive" => inner.as_str().expect("a name").to_owned(),
        "borrowed_ref" => {
            let lifetime = inner["lifetime"].as_str();
            let lifetime = lifetime.map_or(String::new(), |name| format!("{name} "));
            format!("&{lifetime}{}{}", mutable("mut ", ""), ty(&inner["type"]))
        }
        "raw_pointer" => format!("*{}{}", mutable("mut ", "const "), ty(&inner["type"])),
        "slice" => format!("[{}]", ty(inner)),
        "array" => format!(
            "[{}; {}]",
            ty(&inner["type"]),
            inner["len"].as_str().unwrap_or("_")
        ),
        "tuple" => format!("({})", joined(list(inner).map(ty), ", ")),
        "impl_trait" => format!("impl {}", bounds(inner)),
        "dyn_trait" => {
            let traits = list(&inner["traits"]).map(|one| path_of(&one["trait"]));
            let lifetime = inner["lifetime"].as_str().map(str::to_owned);
            format!("dyn {}", joined(traits.chain(lifetime), " + "))
        }
        "qualified_path" => {
            let name = inner["name"].as_str().expect("a name");
            let of_self = ty(&inner["self_type"]);
            match &inner["trait"] {
                Value::Null => format!("{of_self}::{name}"),
                of_trait => format!("<{of_self} as {}>::{name}", path_of(of_trait)),
            }
        }
        "function_pointer" => format!("fn{}", signature(&inner["sig"])),
        _ => panic!("a {kind} is a type that is not known here"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two crates: `outer` shows a type of `inner` under a name of its own.
    fn documented() -> Documented {
        let outer = r#"{"root": 0, "paths": {"9": {"crate_id": 7, "path": ["inner", "deep", "Thing"], "kind": "struct"}}, "index": {
            "0": {"name": "outer", "attrs": [], "inner": {"module": {"items": [1, 2, 3, 4, 99]}}},
            "1": {"name": "open", "attrs": [], "inner": {"function": {"header": {"is_const": false, "is_unsafe": false, "is_async": true},
                "generics": {"params": [{"name": "T", "kind": {"type": {"bounds": [{"trait_bound": {"trait": {"path": "a::Send", "args": null},
                "modifier": "none"}}], "is_synthetic": false}}}], "where_predicates": []}, "has_body": true,
                "sig": {"inputs": [["url", {"borrowed_ref": {"lifetime": null, "is_mutable": false, "type": {"primitive": "str"}}}]],
                "output": {"resolved_path": {"path": "crate::Result", "args": {"angle_bracketed": {"args": [{"type": {"generic": "T"}}],
                "constraints": []}}}}}}}},
            "2": {"name": null, "attrs": [], "inner": {"use": {"source": "inner::Thing", "name": "Shown", "id": 9, "is_glob": false}}},
            "3": {"name": null, "attrs": [], "inner": {"use": {"source": "std::io", "name": "io", "id": 8, "is_glob": false}}},
            "4": {"name": "Kind", "attrs": ["non_exhaustive"], "inner": {"enum": {"generics": {"params": [], "where_predicates": []},
                "variants": [5], "impls": []}}},
            "5": {"name": "One", "attrs": [], "inner": {"variant": {"kind": {"tuple": [6]}}}},
            "6": {"name": "0", "attrs": [], "inner": {"struct_field": {"primitive": "u8"}}}}}"#;
        let inner = r#"{"root": 0, "paths": {"3": {"crate_id": 0, "path": ["inner", "deep", "Thing"], "kind": "struct"}}, "index": {
            "0": {"name": "inner", "attrs": [], "inner": {"module": {"items": []}}},
            "3": {"name": "Thing", "attrs": [], "inner": {"struct": {"kind": {"plain": {"fields": [4], "has_stripped_fields": true}},
                "generics": {"params": [], "where_predicates": []}, "impls": [5, 6, 7, 8]}}},
            "4": {"name": "size", "attrs": [], "inner": {"struct_field": {"primitive": "usize"}}},
            "5": {"name": null, "attrs": [], "inner": {"impl": {"is_synthetic": true, "is_negative": false, "blanket_impl": null,
                "trait": {"path": "Send", "args": null}, "items": []}}},
            "6": {"name": null, "attrs": [], "inner": {"impl": {"is_synthetic": true, "is_negative": false, "blanket_impl": null,
                "trait": {"path": "UnwindSafe", "args": null}, "items": []}}},
            "7": {"name": null, "attrs": [], "inner": {"impl": {"is_synthetic": false, "is_negative": false, "blanket_impl": {"generic": "T"},
                "trait": {"path": "Any", "args": null}, "items": []}}},
            "8": {"name": null, "attrs": [], "inner": {"impl": {"is_synthetic": false, "is_negative": false, "blanket_impl": null,
                "trait": null, "items": [9]}}},
            "9": {"name": "len", "attrs": [], "inner": {"function": {"header": {"is_const": true, "is_unsafe": false, "is_async": false},
                "generics": {"params": [], "where_predicates": []}, "has_body": true, "sig": {"inputs": [["self", {"borrowed_ref":
                {"lifetime": null, "is_mutable": false, "type": {"generic": "Self"}}}]], "output": {"primitive": "usize"}}}}}}}"#;
        let mut documented = Documented::default();
        documented.add("outer", outer);
        documented.add("inner", inner);
        documented
    }

    #[test]
    fn a_crate_has_its_own_names_and_those_that_it_shows() {
        let expected = [
            "async fn outer::open<T: Send>(&str) -> Result<T>",
            "const fn outer::Shown::len(&self) -> usize",
            "enum outer::Kind (non-exhaustive)",
            "field outer::Kind::One.0: u8",
            "field outer::Shown.size: usize",
            "impl Send for outer::Shown",
            "struct outer::Shown (private fields)",
            "use outer::io = std::io",
            "variant outer::Kind::One",
        ];
        let names = documented().names("outer");
        assert_eq!(
            names.iter().map(String::as_str).collect::<Vec<_>>(),
            expected
        );
    }

    #[test]
    fn a_name_that_is_gone_and_one_that_is_new_are_shown() {
        let old = documented().names("outer");
        assert_eq!(differences(&old, &old), Vec::<String>::new());
        let mut new = old.clone();
        new.remove("impl Send for outer::Shown");
        new.insert("fn outer::close()".to_owned());
        assert_eq!(
            differences(&old, &new),
            ["- impl Send for outer::Shown", "+ fn outer::close()"]
        );
    }
}
