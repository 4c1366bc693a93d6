//! The paths that a file refers to outside its tests.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{TokenStream, TokenTree};
use syn::{Attribute, File, Item, UseTree, visit::Visit};

/// Paths such as `std::fs::read` and `crate::plugin::Name`; `super` and `self`
/// are resolved to `crate::…`.
#[derive(Default)]
pub(crate) struct Mentions {
    paths: BTreeSet<Vec<String>>,
    /// The names that it takes from other modules of this crate, each with its path below
    /// `crate`.
    pub(crate) taken: BTreeMap<String, Vec<String>>,
    /// True if there is an `unsafe` block, function or implementation.
    pub(crate) has_unsafe: bool,
}

impl Mentions {
    /// Tells if a path begins with `prefix`, such as `std::fs`.
    pub(crate) fn names(&self, prefix: &str) -> bool {
        let prefix: Vec<_> = prefix.split("::").collect();
        self.paths
            .iter()
            .any(|path| path.iter().zip(&prefix).filter(|(a, b)| a == *b).count() == prefix.len())
    }

    /// The modules of this crate that are referred to: the paths below `crate`.
    pub(crate) fn modules(&self) -> impl Iterator<Item = &[String]> {
        let own = self.paths.iter().filter(|path| path.first().is_some_and(|name| name == "crate"));
        own.map(|path| &path[1..])
    }
}

/// The paths in `file`, which is the module `module` of its crate.
pub(crate) fn of(file: &File, module: &[String]) -> Mentions {
    let mut visitor = Visitor { module: module.to_vec(), found: Mentions::default() };
    visitor.visit_file(file);
    visitor.found
}

/// Tells if the attributes restrict an item to tests.
pub(crate) fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg")
            && attribute.parse_args::<syn::Path>().is_ok_and(|path| path.is_ident("test"))
    })
}

struct Visitor {
    module: Vec<String>,
    found: Mentions,
}

impl Visitor {
    fn add(&mut self, path: Vec<String>) {
        let resolved = self.resolve(path);
        self.found.paths.insert(resolved);
    }

    fn resolve(&self, path: Vec<String>) -> Vec<String> {
        let supers = path.iter().take_while(|name| *name == "super").count();
        let own = path.first().is_some_and(|name| name == "self");
        if supers > 0 || own {
            let depth = self.module.len().saturating_sub(supers);
            let base = ["crate".to_owned()].into_iter().chain(self.module[..depth].iter().cloned());
            base.chain(path.into_iter().skip(supers.max(1))).collect()
        } else {
            path
        }
    }

    fn take(&mut self, name: String, path: Vec<String>) {
        let resolved = self.resolve(path);
        if let Some((_, below)) = resolved.split_first().filter(|(root, _)| *root == "crate") {
            self.found.taken.insert(name, below.to_vec());
        }
        self.found.paths.insert(resolved);
    }

    fn add_tree(&mut self, tree: &UseTree, before: &[String]) {
        let with = |name: String| before.iter().cloned().chain([name]).collect::<Vec<_>>();
        match tree {
            UseTree::Path(path) => self.add_tree(&path.tree, &with(path.ident.to_string())),
            UseTree::Name(name) if name.ident == "self" => self.add(before.to_vec()),
            UseTree::Name(name) => self.take(name.ident.to_string(), with(name.ident.to_string())),
            UseTree::Rename(name) => {
                self.take(name.rename.to_string(), with(name.ident.to_string()));
            }
            UseTree::Glob(_) => self.add(before.to_vec()),
            UseTree::Group(group) => {
                for tree in &group.items {
                    self.add_tree(tree, before);
                }
            }
        }
    }

    /// A macro's arguments have no grammar: takes `a::b::c` wherever it stands.
    fn add_tokens(&mut self, tokens: TokenStream) {
        let mut path = Vec::new();
        let mut colons = 0;
        for token in tokens {
            match token {
                TokenTree::Ident(name) => {
                    if colons != 2 {
                        self.add_all(&mut path);
                    }
                    path.push(name.to_string());
                    colons = 0;
                }
                TokenTree::Punct(mark) if mark.as_char() == ':' => colons += 1,
                TokenTree::Group(group) => {
                    self.add_all(&mut path);
                    self.add_tokens(group.stream());
                }
                TokenTree::Punct(_) | TokenTree::Literal(_) => self.add_all(&mut path),
            }
        }
        self.add_all(&mut path);
    }

    fn add_all(&mut self, path: &mut Vec<String>) {
        if path.len() > 1 {
            self.add(std::mem::take(path));
        }
        path.clear();
    }
}

impl<'ast> Visit<'ast> for Visitor {
    fn visit_item(&mut self, item: &'ast Item) {
        let attributes = match item {
            Item::Mod(item) => &item.attrs,
            Item::Fn(item) => &item.attrs,
            Item::Impl(item) => &item.attrs,
            Item::Use(item) => &item.attrs,
            Item::Struct(item) => &item.attrs,
            Item::Enum(item) => &item.attrs,
            Item::Const(item) => &item.attrs,
            Item::Static(item) => &item.attrs,
            Item::Macro(item) => &item.attrs,
            Item::Trait(item) => &item.attrs,
            Item::Type(item) => &item.attrs,
            Item::ExternCrate(_)
            | Item::ForeignMod(_)
            | Item::TraitAlias(_)
            | Item::Union(_)
            | Item::Verbatim(_)
            | _ => return syn::visit::visit_item(self, item),
        };
        if !is_test(attributes) {
            syn::visit::visit_item(self, item);
        }
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        self.module.push(item.ident.to_string());
        syn::visit::visit_item_mod(self, item);
        self.module.pop();
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        self.add_tree(&item.tree, &[]);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        if path.segments.len() > 1 {
            self.add(path.segments.iter().map(|segment| segment.ident.to_string()).collect());
        }
        syn::visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, called: &'ast syn::Macro) {
        self.add_tokens(called.tokens.clone());
        syn::visit::visit_macro(self, called);
    }

    fn visit_expr_unsafe(&mut self, block: &'ast syn::ExprUnsafe) {
        self.found.has_unsafe = true;
        syn::visit::visit_expr_unsafe(self, block);
    }

    fn visit_signature(&mut self, signature: &'ast syn::Signature) {
        self.found.has_unsafe |= signature.unsafety.is_some();
        syn::visit::visit_signature(self, signature);
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        self.found.has_unsafe |= item.unsafety.is_some();
        syn::visit::visit_item_impl(self, item);
    }
}
