//! Would this server-side apply change anything?
//!
//! Two questions, both answered from the live object: does a field that we want differ, and do we still
//! own a field that we no longer want. A wrong "no" would leave the cluster behind git for good, a wrong
//! "yes" costs one write; so what is not known to be the server's own doing counts as a difference.

use std::fmt;

use serde_json::{Map, Value};

use crate::apply::fields::SERVER_METADATA;
use crate::apply::schema::{Form, Shape, is_item_default, item_key};
use crate::cluster::{FieldManager, Part};
use crate::object::{Object, all_but};

/// What an apply would do.
#[derive(Clone, Debug, PartialEq)]
pub enum Difference {
    /// The object is not there.
    Create,
    /// These fields would change.
    Update {
        /// In the order of the desired object, removals last.
        changes: Vec<FieldChange>,
    },
    /// Nothing.
    None,
}

/// One field that an apply would change.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldChange {
    /// For people: `spec.template.spec.containers[name=facade].image`.
    pub path: String,
    /// The live value, if there is one.
    pub from: Option<Value>,
    /// The desired value; `None` removes the field.
    pub to: Option<Value>,
}

/// What a forced server-side apply of `part` of `desired` by `manager` would change in `live`.
pub fn difference(desired: &Object, live: Option<&Object>, manager: FieldManager, part: Part) -> Difference {
    let Some(live) = live else { return Difference::Create };
    let owners = Owners::of(live, manager, part);
    let kind = live.kind();
    let mut found = Comparison { is_built_in: !kind.group.ends_with(CUSTOM_GROUP), changes: Vec::new() };
    let shape = Shape::of(&kind);
    for (name, value) in desired.fields() {
        match (part, name.as_str()) {
            (_, "apiVersion" | "kind") | (Part::Main, "status") => {}
            (Part::Main, "metadata") => {
                let Some(wanted) = value.as_object() else { continue };
                let (path, owners, shape) = (Path::root("metadata"), owners.field("metadata"), shape.field("metadata"));
                for (name, value) in wanted.iter().filter(|(name, _)| !SERVER_METADATA.contains(&name.as_str())) {
                    let live = live.fields().get("metadata").and_then(|metadata| metadata.get(name));
                    found.compare(&path.field(name), value, live, shape.field(name), &owners.field(name));
                }
            }
            (Part::Main, _) | (Part::Status, "status") => {
                let live = live.fields().get(name);
                found.compare(&Path::root(name), value, live, shape.field(name), &owners.field(name));
            }
            (Part::Status, _) => {}
        }
    }
    if let Some(own) = owners.own {
        for (element, below) in own {
            let Some(name) = element.strip_prefix("f:") else { continue };
            let is_in_part = match part {
                Part::Main => name != "status",
                Part::Status => name == "status",
            };
            if is_in_part {
                let wanted = desired.fields().get(name);
                let live = live.fields().get(name);
                found.removals(&Path::root(name), below, wanted, live, shape.field(name), &owners.field(name));
            }
        }
    }
    if found.changes.is_empty() { Difference::None } else { Difference::Update { changes: found.changes } }
}

/// Whether two states of a live object are the same to an apply of its main part: [`difference`] between anything and either of
/// them is then the same. It looks neither at the status nor at who wrote that, nor at what the server counts with each write,
/// which nobody owns.
pub fn is_same_but_status(a: &Object, b: &Object) -> bool {
    let maps = [
        (Some(a.fields()), Some(b.fields()), &["metadata", "status"]),
        (metadata(a), metadata(b), &["managedFields", "resourceVersion"]),
    ];
    maps.into_iter().all(|(a, b, left_out)| all_but(a, left_out).eq(all_but(b, left_out)))
        && managed_fields(a).len() == managed_fields(b).len()
        && managed_fields(a).iter().zip(managed_fields(b)).all(|(a, b)| {
            ["manager", "operation", "subresource"].into_iter().all(|name| a.get(name) == b.get(name))
                && all_but(fields_of(a), &["f:status"]).eq(all_but(fields_of(b), &["f:status"]))
        })
}

fn metadata(object: &Object) -> Option<&Map<String, Value>> {
    object.at("/metadata").and_then(Value::as_object)
}

/// The entries of `metadata.managedFields`.
fn managed_fields(object: &Object) -> &[Value] {
    object.at("/metadata/managedFields").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn fields_of(entry: &Value) -> Option<&Map<String, Value>> {
    entry.get("fieldsV1").and_then(Value::as_object)
}

/// Kinds of this group are stored as they are written; built-in ones lose their zero values on the way.
const CUSTOM_GROUP: &str = "omnia.altairalabs.ai";

struct Comparison {
    is_built_in: bool,
    changes: Vec<FieldChange>,
}

impl Comparison {
    fn changed(&mut self, path: &Path<'_>, from: Option<&Value>, to: Option<&Value>) {
        self.changes.push(FieldChange { path: path.to_string(), from: from.cloned(), to: to.cloned() });
    }

    fn compare(&mut self, path: &Path<'_>, wanted: &Value, live: Option<&Value>, shape: &Shape, owners: &Owners<'_>) {
        // Most is as it should be, and to see that takes no look at who owns it.
        if live == Some(wanted) {
            return;
        }
        // A removed map of a custom resource can stay behind as null.
        let live = live.filter(|live| !live.is_null());
        match (wanted, live) {
            (Value::Null, _) => {}
            (Value::Object(map), Some(live_value @ Value::Object(live_map))) => {
                let is_same = match shape.form {
                    Form::AtomicMap => is_equal(wanted, live_value, shape),
                    Form::AtomicMapWithDefaults => is_covered(wanted, live_value, shape),
                    _ => {
                        for (name, value) in map {
                            let live = live_map.get(name);
                            // Most is as it should be, and to see that takes no look at who owns it.
                            if live == Some(value) {
                                continue;
                            }
                            self.compare(&path.field(name), value, live, shape.field(name), &owners.field(name));
                        }
                        true
                    }
                };
                if !is_same {
                    self.changed(path, live, Some(wanted));
                }
            }
            (Value::Array(items), Some(Value::Array(live_items))) => {
                match owners.list_form(shape) {
                    ListForm::ByKeys(keys) => self.compare_by_keys(path, items, live_items, &keys, shape, owners),
                    ListForm::Set => {
                        if !items.iter().all(|item| live_items.contains(item)) {
                            self.changed(path, live, Some(wanted));
                        }
                    }
                    ListForm::Atomic => {
                        let is_same = items.len() == live_items.len()
                            && items.iter().zip(live_items).all(|(item, live)| is_covered(item, live, &shape.item()));
                        if !is_same {
                            self.changed(path, live, Some(wanted));
                        }
                    }
                };
            }
            (_, Some(value)) if is_scalar_equal(wanted, value, shape) => {}
            (_, None) if self.vanishes(wanted, owners) => {}
            _ => self.changed(path, live, Some(wanted)),
        }
    }

    fn compare_by_keys(
        &mut self,
        path: &Path<'_>,
        items: &[Value],
        live_items: &[Value],
        keys: &[String],
        shape: &Shape,
        owners: &Owners<'_>,
    ) {
        let shape = shape.item();
        for (i, item) in items.iter().enumerate() {
            let Some(key) = item_key(item, keys) else {
                self.changed(&path.item(&i.to_string()), None, Some(item));
                continue;
            };
            // Almost always the items are in the same order.
            let live = live_items
                .get(i)
                .filter(|live| item_key(live, keys).as_ref() == Some(&key))
                .or_else(|| live_items.iter().find(|live| item_key(live, keys).as_ref() == Some(&key)));
            if live == Some(item) {
                continue;
            }
            let title = item_title(item, keys);
            self.compare(&path.item(&title), item, live, &shape, &owners.child(&format!("k:{key}")));
        }
    }

    /// Whether an absent live field is what the server makes of `wanted`.
    fn vanishes(&self, wanted: &Value, owners: &Owners<'_>) -> bool {
        match wanted {
            Value::Null => true,
            Value::Array(items) => items.is_empty(),
            // `pause: {}` and `trafficRouting: {}` say something, and a custom resource keeps them.
            Value::Object(map) => {
                (self.is_built_in || !map.is_empty())
                    && map.iter().all(|(name, value)| self.vanishes(value, &owners.field(name)))
            }
            // A built-in kind does not keep `""`, `false` or 0 in most fields. That we own the field tells
            // that we applied it and that nobody took it away since.
            Value::String(text) => text.is_empty() && self.is_built_in && owners.is_own(),
            Value::Bool(bool) => !bool && self.is_built_in && owners.is_own(),
            Value::Number(number) => number.as_f64() == Some(0.0) && self.is_built_in && owners.is_own(),
        }
    }

    /// Reports the fields at and below `own` that are live and no longer wanted.
    fn removals(
        &mut self,
        path: &Path<'_>,
        own: &Value,
        wanted: Option<&Value>,
        live: Option<&Value>,
        shape: &Shape,
        owners: &Owners<'_>,
    ) {
        let Some(live) = live.filter(|live| !live.is_null()) else { return };
        let wanted = wanted.filter(|wanted| !wanted.is_null());
        // All that is live here is wanted.
        if wanted == Some(live) {
            return;
        }
        let Some(own) = own.as_object() else { return };
        if wanted.is_none() && owners.others.is_empty() {
            if owns_something(own) {
                self.changed(path, Some(live), None);
            }
            return;
        }
        for (element, below) in own {
            if let Some(name) = element.strip_prefix("f:") {
                let (wanted, live) = (wanted.and_then(|wanted| wanted.get(name)), live.get(name));
                if live.is_none() || live == wanted {
                    continue;
                }
                let (path, owners) = (path.field(name), owners.child(element));
                self.removals(&path, below, wanted, live, shape.field(name), &owners);
            } else if let Some(key) = element.strip_prefix("k:") {
                let Ok(Value::Object(keys)) = serde_json::from_str::<Value>(key) else { continue };
                let wanted = wanted.and_then(|wanted| find_item(wanted, &keys));
                let live = find_item(live, &keys);
                let title = live.map(|live| item_title(live, &keys.keys().collect::<Vec<_>>())).unwrap_or_default();
                self.removals(&path.item(&title), below, wanted, live, &shape.item(), &owners.child(element));
            } else if let Some(text) = element.strip_prefix("v:") {
                let Ok(value) = serde_json::from_str::<Value>(text) else { continue };
                let has = |list: &Value| list.as_array().is_some_and(|items| items.contains(&value));
                let is_shared = !owners.child(element).others.is_empty();
                if !wanted.is_some_and(has) && has(live) && !is_shared {
                    self.changed(&path.item(&text_of(&value)), Some(&value), None);
                }
            }
        }
    }
}

/// Who owns what at and below one node, as the trees of `managedFields`.
struct Owners<'a> {
    own: Option<&'a Map<String, Value>>,
    others: Vec<&'a Map<String, Value>>,
}

enum ListForm {
    ByKeys(Vec<String>),
    Set,
    Atomic,
}

impl<'a> Owners<'a> {
    fn of(live: &'a Object, manager: FieldManager, part: Part) -> Self {
        let mut owners = Self { own: None, others: Vec::new() };
        for entry in managed_fields(live) {
            let text = |name: &str| entry.get(name).and_then(Value::as_str).unwrap_or_default();
            let Some(fields) = fields_of(entry) else { continue };
            let subresource = match part {
                Part::Main => "",
                Part::Status => "status",
            };
            let is_own = text("manager") == manager.as_str()
                && text("operation") == "Apply"
                && text("subresource") == subresource;
            if is_own {
                owners.own = Some(fields);
            } else {
                owners.others.push(fields);
            }
        }
        owners
    }

    fn field(&self, name: &str) -> Self {
        if self.own.is_none() && self.others.is_empty() {
            return Self { own: None, others: Vec::new() };
        }
        self.child(&format!("f:{name}"))
    }

    fn child(&self, element: &str) -> Self {
        let below = |tree: &&'a Map<String, Value>| tree.get(element).and_then(Value::as_object);
        Self { own: self.own.as_ref().and_then(below), others: self.others.iter().filter_map(below).collect() }
    }

    fn is_own(&self) -> bool {
        self.own.is_some()
    }

    /// How the server merges the list at this node: what the owners' trees show, else what the table says.
    fn list_form(&self, shape: &Shape) -> ListForm {
        let mut is_leaf = false;
        for tree in self.own.iter().chain(&self.others) {
            for element in tree.keys() {
                if let Some(Ok(Value::Object(keys))) = element.strip_prefix("k:").map(serde_json::from_str) {
                    return ListForm::ByKeys(keys.keys().cloned().collect());
                }
                if element.starts_with("v:") {
                    return ListForm::Set;
                }
            }
            is_leaf |= tree.is_empty();
        }
        match shape.form {
            Form::MapList(keys) if !is_leaf => ListForm::ByKeys(keys.iter().map(|key| (*key).to_owned()).collect()),
            Form::SetList if !is_leaf => ListForm::Set,
            _ => ListForm::Atomic,
        }
    }
}

/// Whether a tree has a member besides the markers of inner nodes.
fn owns_something(tree: &Map<String, Value>) -> bool {
    tree.is_empty() || tree.iter().any(|(name, below)| name != "." && below.as_object().is_some_and(owns_something))
}

/// Whether `live` is `wanted` plus nothing but defaults.
fn is_covered(wanted: &Value, live: &Value, shape: &Shape) -> bool {
    match (wanted, live) {
        (Value::Object(wanted), Value::Object(live)) => {
            let are_wanted_there = wanted.iter().all(|(name, value)| match live.get(name) {
                Some(live) => is_covered(value, live, shape.field(name)),
                None => is_hollow(value),
            });
            let is_rest_default = || {
                live.iter().all(|(name, value)| {
                    wanted.get(name).is_some_and(|wanted| !wanted.is_null())
                        || value.is_null()
                        || is_item_default(name, value)
                })
            };
            are_wanted_there && is_rest_default()
        }
        (Value::Array(wanted), Value::Array(live)) => {
            wanted.len() == live.len()
                && wanted.iter().zip(live).all(|(wanted, live)| is_covered(wanted, live, &shape.item()))
        }
        _ => is_scalar_equal(wanted, live, shape),
    }
}

/// Whether two maps are the same, nulls and empty values aside.
fn is_equal(wanted: &Value, live: &Value, shape: &Shape) -> bool {
    match (wanted, live) {
        (Value::Object(a), Value::Object(b)) => {
            let covers = |a: &Map<String, Value>, b: &Map<String, Value>| {
                a.iter().all(|(name, value)| match b.get(name) {
                    Some(other) => is_equal(value, other, shape.field(name)),
                    None => is_hollow(value),
                })
            };
            covers(a, b) && covers(b, a)
        }
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_equal(a, b, &shape.item()))
        }
        _ => is_scalar_equal(wanted, live, shape),
    }
}

/// Whether a value inside an atomic list or map is as good as absent. An empty map is not: `pause: {}` is a whole step.
fn is_hollow(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(_) | Value::String(_) | Value::Bool(_) | Value::Number(_) => false,
    }
}

fn is_scalar_equal(wanted: &Value, live: &Value, shape: &Shape) -> bool {
    match (wanted, live) {
        _ if shape.form == Form::Quantity => match (quantity(wanted), quantity(live)) {
            (Some(a), Some(b)) => a == b,
            _ => wanted == live,
        },
        (Value::Number(a), Value::Number(b)) => a == b || (a.is_f64() != b.is_f64() && a.as_f64() == b.as_f64()),
        (a, b) => a == b,
    }
}

/// A resource quantity in billionths, as the API server rounds it.
fn quantity(value: &Value) -> Option<i128> {
    let text = match value {
        Value::String(text) => text.trim().to_owned(),
        Value::Number(number) => number.to_string(),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => return None,
    };
    let end = text.find(|c: char| !matches!(c, '0'..='9' | '.' | '+' | '-')).unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    const BILLION: i128 = 1_000_000_000;
    let (up, down): (i128, i128) = match suffix {
        "n" => (1, BILLION),
        "u" => (1, 1_000_000),
        "m" => (1, 1000),
        "" => (1, 1),
        "k" => (1000, 1),
        "M" => (1_000_000, 1),
        "G" => (BILLION, 1),
        "T" => (1000 * BILLION, 1),
        "P" => (1_000_000 * BILLION, 1),
        "E" => (BILLION * BILLION, 1),
        "Ki" => (1 << 10, 1),
        "Mi" => (1 << 20, 1),
        "Gi" => (1 << 30, 1),
        "Ti" => (1 << 40, 1),
        "Pi" => (1 << 50, 1),
        "Ei" => (1 << 60, 1),
        exponent => {
            let digits: i32 = exponent.strip_prefix(['e', 'E'])?.parse().ok()?;
            let power = 10_i128.checked_pow(digits.unsigned_abs())?;
            if digits < 0 { (1, power) } else { (power, 1) }
        }
    };
    let (is_negative, number) = match number.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, number.strip_prefix('+').unwrap_or(number)),
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    // More digits than billionths of the smallest suffix are beyond what the server keeps.
    let fraction = &fraction[..fraction.len().min(18)];
    let digits: i128 = format!("{whole}{fraction}").parse().ok()?;
    let scale = 10_i128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    let value = digits.checked_mul(up)?.checked_mul(BILLION)?.checked_div(down.checked_mul(scale)?)?;
    Some(if is_negative { -value } else { value })
}

fn find_item<'a>(list: &'a Value, keys: &Map<String, Value>) -> Option<&'a Value> {
    list.as_array()?.iter().find(|item| {
        keys.iter().all(|(name, key)| match item.get(name) {
            Some(value) => value == key,
            None => name == "protocol" && key == "TCP",
        })
    })
}

fn item_title(item: &Value, keys: &[impl AsRef<str>]) -> String {
    let titles: Vec<String> =
        keys.iter().filter_map(|key| Some(format!("{}={}", key.as_ref(), text_of(item.get(key.as_ref())?)))).collect();
    titles.join(",")
}

fn text_of(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Where a value is: a list of names that is only written out for what differs.
struct Path<'a> {
    parent: Option<&'a Self>,
    name: &'a str,
    is_item: bool,
}

impl<'a> Path<'a> {
    fn root(name: &'a str) -> Self {
        Self { parent: None, name, is_item: false }
    }

    fn field<'b>(&'b self, name: &'b str) -> Path<'b> {
        Path { parent: Some(self), name, is_item: false }
    }

    fn item<'b>(&'b self, name: &'b str) -> Path<'b> {
        Path { parent: Some(self), name, is_item: true }
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(parent) = self.parent {
            write!(f, "{parent}")?;
        }
        let is_plain = !self.name.contains(['.', '/']);
        match (self.is_item, self.parent) {
            (false, None) => f.write_str(self.name),
            (false, Some(_)) if is_plain => write!(f, ".{}", self.name),
            _ => write!(f, "[{}]", self.name),
        }
    }
}
