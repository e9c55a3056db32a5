//! Writes all mutants of Rust files into these files, each behind a condition.
//!
//!     mutants EXCLUDED FILE...
//!
//! Of the mutants, numbered from 1, EXCLUDED has the numbers, a line each, of those to leave out:
//! they do not compile. Prints the others, a line each: number, place, function, what is changed.
//! The kinds are those of cargo-mutants: values in place of bodies, other operators, no `!` and no
//! `-`, guards of matches that are true or false, arms left out where another takes all.

use std::collections::HashSet;
use std::{env, fs};

use proc_macro2::{Span, TokenStream};
use quote::quote;
use syn::spanned::Spanned;
use syn::visit_mut::{self, VisitMut};
use syn::*;

struct Mutator {
    next: u32,
    excluded: HashSet<u32>,
    file: String,
    /// The functions in which it is, the innermost last.
    functions: Vec<String>,
}

fn main() {
    let mut arguments = env::args().skip(1);
    let excluded = arguments.next().expect("the file of excluded numbers");
    let excluded = fs::read_to_string(excluded).expect("the excluded numbers");
    let numbers = excluded.lines().map(|line| line.parse().expect("a number"));
    let mut mutator = Mutator {
        next: 1,
        excluded: numbers.collect(),
        file: String::new(),
        functions: Vec::new(),
    };
    for path in arguments {
        let text = fs::read_to_string(&path).expect("a file to change");
        let mut file = parse_file(&text).expect("Rust");
        mutator.file.clone_from(&path);
        mutator.visit_file_mut(&mut file);
        fs::write(&path, prettyplease::unparse(&file)).expect("the file can be written");
    }
}

impl Mutator {
    /// The number of a new mutant, unless it is excluded.
    fn number(&mut self, span: Span, what: &str) -> Option<u32> {
        let id = self.next;
        self.next += 1;
        if self.excluded.contains(&id) {
            return None;
        }
        let (at, function) = (span.start(), self.functions.last());
        let function = function.map_or("-", |name| name);
        let (line, column) = (at.line, at.column + 1);
        println!("{id} {}:{line}:{column} {function} {what}", self.file);
        Some(id)
    }

    /// Lets a function return other values, and changes what is in it.
    fn function(&mut self, signature: &Signature, block: &mut Block, of: &str) {
        if signature.constness.is_some() || signature.ident == "main" {
            return;
        }
        self.functions.push(format!("{of}{}", signature.ident));
        let body = quote!(#block).to_string();
        let unit = parse_quote!(());
        let result = match &signature.output {
            ReturnType::Default => &unit,
            ReturnType::Type(_, result) => &**result,
        };
        let mut others = Vec::new();
        for value in values(result) {
            if !block.stmts.is_empty()
                && quote!({ #value }).to_string() != body
                && let Some(id) = self.number(signature.ident.span(), &format!("-> {value}"))
            {
                others.push(parse_quote!(if ::mutant::m(#id) { return #value; }));
            }
        }
        visit_mut::visit_block_mut(self, block);
        block.stmts.splice(0..0, others);
        self.functions.pop();
    }

    fn binary(&mut self, binary: &mut ExprBinary) -> Option<Expr> {
        let (span, op) = (binary.op.span(), binary.op);
        let has_let = has_let(&binary.left) || has_let(&binary.right);
        self.visit_expr_mut(&mut binary.left);
        self.visit_expr_mut(&mut binary.right);
        let (left, right) = (&binary.left, &binary.right);
        let name = quote!(#op).to_string();
        if let "&&" | "||" = &*name {
            // Not twice the operands: what is nested would grow without limit.
            let other = if name == "&&" { "||" } else { "&&" };
            let id = (!has_let).then(|| self.number(span, &format!("{name} -> {other}")))??;
            let (yes, no) = match &*name {
                "&&" => (quote!(#right), quote!(left)),
                _ => (quote!(left), quote!(#right)),
            };
            return Some(parse_quote!((match (#left) {
                left => if left != ::mutant::m(#id) { #yes } else { #no },
            })));
        }
        let is_comparison = matches!(&*name, "==" | "!=" | "<" | ">" | "<=" | ">=");
        let is_assignment = name.ends_with('=') && !is_comparison;
        let (l, r) = match (is_comparison, is_assignment) {
            (true, _) => (quote!(*left), quote!(*right)),
            (_, true) => (quote!(#left), quote!(right)),
            _ => (quote!(left), quote!(right)),
        };
        let mut conditions = TokenStream::new();
        for other in operators(&name) {
            if let Some(id) = self.number(span, &format!("{name} -> {other}")) {
                let other: BinOp = parse_str(other).expect("an operator");
                conditions.extend(quote!(if ::mutant::m(#id) { #l #other #r } else));
            }
        }
        if conditions.is_empty() {
            return None;
        }
        let chosen = quote!(#conditions { #l #op #r });
        Some(match (is_comparison, is_assignment) {
            (true, _) => parse_quote!((match (&(#left), &(#right)) { (left, right) => #chosen })),
            (_, true) => parse_quote!({ let right = #right; #chosen }),
            _ => parse_quote!((match (#left, #right) { (left, right) => #chosen })),
        })
    }
}

impl VisitMut for Mutator {
    fn visit_item_mut(&mut self, item: &mut Item) {
        match item {
            Item::Fn(function) if !is_test(&function.attrs) => {
                self.function(&function.sig, &mut function.block, "");
            }
            Item::Impl(of) if !is_test(&of.attrs) => {
                let ty = &of.self_ty;
                let name = format!("{}::", quote!(#ty).to_string().replace(' ', ""));
                for item in &mut of.items {
                    if let ImplItem::Fn(function) = item
                        && !is_test(&function.attrs)
                        && function.sig.ident != "default"
                    {
                        self.function(&function.sig, &mut function.block, &name);
                    }
                }
            }
            Item::Trait(of) => {
                let name = format!("{}::", of.ident);
                for item in &mut of.items {
                    if let TraitItem::Fn(function) = item
                        && let Some(block) = &mut function.default
                    {
                        self.function(&function.sig, block, &name);
                    }
                }
            }
            Item::Mod(module) if !is_test(&module.attrs) => {
                visit_mut::visit_item_mod_mut(self, module);
            }
            _ => {}
        }
    }

    // What the compiler computes cannot ask which mutant is active.
    fn visit_expr_const_mut(&mut self, _: &mut ExprConst) {}
    fn visit_type_mut(&mut self, _: &mut Type) {}
    fn visit_pat_mut(&mut self, _: &mut Pat) {}
    fn visit_generic_argument_mut(&mut self, _: &mut GenericArgument) {}
    fn visit_expr_repeat_mut(&mut self, repeat: &mut ExprRepeat) {
        self.visit_expr_mut(&mut repeat.expr);
    }

    fn visit_arm_mut(&mut self, arm: &mut Arm) {
        if let Some((_, guard)) = &mut arm.guard {
            let (span, has_let) = (guard.span(), has_let(guard));
            self.visit_expr_mut(guard);
            if !has_let {
                if let Some(id) = self.number(span, "match guard -> false") {
                    **guard = parse_quote!((!::mutant::m(#id) && (#guard)));
                }
                if let Some(id) = self.number(span, "match guard -> true") {
                    **guard = parse_quote!((::mutant::m(#id) || (#guard)));
                }
            }
        }
        self.visit_expr_mut(&mut arm.body);
    }

    fn visit_expr_match_mut(&mut self, matched: &mut ExprMatch) {
        self.visit_expr_mut(&mut matched.expr);
        let takes_all = |arm: &Arm| matches!(arm.pat, Pat::Wild(_)) && arm.guard.is_none();
        let some_takes_all = matched.arms.iter().any(takes_all);
        for arm in &mut matched.arms {
            let may_go = some_takes_all && !takes_all(arm) && arm.guard.is_none();
            self.visit_arm_mut(arm);
            let pattern = &arm.pat;
            let what = format!("delete match arm {}", quote!(#pattern));
            if may_go && let Some(id) = self.number(pattern.span(), &what) {
                let guard = parse_quote!(!::mutant::m(#id));
                arm.guard = Some((Default::default(), Box::new(guard)));
            }
        }
    }

    fn visit_expr_mut(&mut self, expression: &mut Expr) {
        match expression {
            Expr::Binary(binary) => {
                if let Some(other) = self.binary(binary) {
                    *expression = other;
                }
            }
            Expr::Unary(unary)
                if matches!(unary.op, UnOp::Not(_) | UnOp::Neg(_))
                    && !matches!(*unary.expr, Expr::Lit(_)) =>
            {
                self.visit_expr_mut(&mut unary.expr);
                let (op, operand) = (unary.op, &unary.expr);
                if let Some(id) = self.number(op.span(), &format!("delete {}", quote!(#op))) {
                    *expression = parse_quote!((match (#operand) {
                        value => if ::mutant::m(#id) { value } else { #op value },
                    }));
                }
            }
            _ => visit_mut::visit_expr_mut(self, expression),
        }
    }
}

fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let text = quote!(#attribute).to_string().replace(' ', "");
        text.contains("cfg(test)") || text == "#[test]"
    })
}

/// Whether a condition binds names, so that its parts cannot be moved.
fn has_let(expression: &Expr) -> bool {
    match expression {
        Expr::Let(_) => true,
        Expr::Binary(ExprBinary { left, right, .. }) => has_let(left) || has_let(right),
        _ => false,
    }
}

/// The operators that are tried in place of one.
fn operators(name: &str) -> &'static [&'static str] {
    match name {
        "==" => &["!="],
        "!=" => &["=="],
        "<" => &["==", ">", "<="],
        ">" => &["==", "<", ">="],
        "<=" => &[">"],
        ">=" => &["<"],
        "+" => &["-", "*"],
        "-" => &["+", "/"],
        "*" => &["+", "/"],
        "/" => &["%", "*"],
        "%" => &["/", "+"],
        "<<" => &[">>"],
        ">>" => &["<<"],
        "&" => &["|", "^"],
        "|" => &["&", "^"],
        "^" => &["|", "&"],
        "+=" => &["-=", "*="],
        "-=" => &["+=", "/="],
        "*=" => &["+=", "/="],
        "/=" => &["%=", "*="],
        "%=" => &["/=", "+="],
        "<<=" => &[">>="],
        ">>=" => &["<<="],
        "&=" => &["|=", "^="],
        "|=" => &["&=", "^="],
        "^=" => &["|=", "&="],
        _ => &[],
    }
}

/// Values that are tried in place of what a function returns.
fn values(result: &Type) -> Vec<TokenStream> {
    match result {
        Type::Path(path) => of_path(&path.path),
        Type::Tuple(tuple) => {
            let each = tuple.elems.iter().map(|one| values(one).into_iter().next());
            let each: Option<Vec<_>> = each.collect();
            each.map(|each| quote!((#(#each),*))).into_iter().collect()
        }
        Type::Reference(reference) if reference.mutability.is_none() => match &*reference.elem {
            Type::Path(path) if path.path.is_ident("str") => vec![quote!(""), quote!("xyzzy")],
            Type::Slice(_) => vec![quote!(&[])],
            _ => Vec::new(),
        },
        Type::Array(_) => vec![quote!(Default::default())],
        _ => Vec::new(),
    }
}

fn of_path(path: &Path) -> Vec<TokenStream> {
    let last = path.segments.last().expect("a path has a name");
    let mut inner = Vec::new();
    if let PathArguments::AngleBracketed(arguments) = &last.arguments {
        for argument in &arguments.args {
            if let GenericArgument::Type(ty) = argument {
                inner.push(values(ty));
            }
        }
    }
    let first = || inner.first().into_iter().flatten();
    match (&*last.ident.to_string(), inner.len()) {
        ("bool", _) => vec![quote!(true), quote!(false)],
        ("u8" | "u16" | "u32" | "u64" | "u128" | "usize", _) => vec![quote!(0), quote!(1)],
        ("i8" | "i16" | "i32" | "i64" | "i128" | "isize", _) => {
            vec![quote!(0), quote!(1), quote!(-1)]
        }
        ("f32" | "f64", _) => vec![quote!(0.0), quote!(1.0), quote!(-1.0)],
        ("String", _) => vec![quote!(String::new()), quote!("xyzzy".into())],
        ("Option", 1) => [quote!(None)]
            .into_iter()
            .chain(first().map(|value| quote!(Some(#value))))
            .collect(),
        ("Result", 1..) => first().map(|value| quote!(Ok(#value))).collect(),
        ("Vec", 1) => [quote!(vec![])]
            .into_iter()
            .chain(first().map(|value| quote!(vec![#value])))
            .collect(),
        ("Box" | "Arc", 1) => first().map(|value| quote!(#value.into())).collect(),
        _ => vec![quote!(Default::default())],
    }
}
