//! Objects at rest, packed.
//!
//! A daemon of ten thousand agents knows a hundred thousand objects and looks at hardly any of them. As JSON values each
//! takes some ten times the room of its text, and the texts of one kind are nearly the same; so an object is kept as its
//! text, compressed against the text of another of its kind, which leaves a few hundred bytes. Who asks for it gets it
//! unpacked, and as long as somebody holds it, everybody gets that very one. Pure: what is asked for is always the same.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use serde_json::Value;

use crate::object::Object;

/// What LZ4 can refer back to, in bytes: of a longer dictionary only the end would be of use.
const WINDOW: usize = 64 * 1024;

/// A packed text below this part of its length shows that the dictionary fits.
const FITTING: usize = 4;

/// An object, packed.
pub struct Packed {
    bytes: Box<[u8]>,
    /// The length of the text.
    length: usize,
    dictionary: Arc<[u8]>,
    /// The object, while somebody has it.
    open: Mutex<Weak<Object>>,
}

impl Packed {
    /// Packs an object that is like no other.
    pub fn alone(object: &Arc<Object>) -> Self {
        Self::against(object, &Arc::default())
    }

    fn against(object: &Arc<Object>, dictionary: &Arc<[u8]>) -> Self {
        let text = serde_json::to_vec(object.fields()).expect("a map with string keys");
        let bytes = lz4_flex::block::compress_with_dict(&text, dictionary);
        Self {
            length: text.len(),
            bytes: bytes.into_boxed_slice(),
            dictionary: Arc::clone(dictionary),
            open: Mutex::new(Arc::downgrade(object)),
        }
    }

    fn text(&self) -> Vec<u8> {
        lz4_flex::block::decompress_with_dict(&self.bytes, self.length, &self.dictionary)
            .expect("it was packed with the same dictionary")
    }

    /// The object.
    pub fn open(&self) -> Arc<Object> {
        // What is under this lock is one or the other, whoever panicked.
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(object) = open.upgrade() {
            return object;
        }
        let value: Value = serde_json::from_slice(&self.text()).expect("it was packed from JSON");
        let object = Arc::new(Object::from_value(value).expect("it was an object"));
        *open = Arc::downgrade(&object);
        object
    }
}

impl Clone for Packed {
    fn clone(&self) -> Self {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let (bytes, dictionary) = (self.bytes.clone(), Arc::clone(&self.dictionary));
        Self { bytes, length: self.length, dictionary, open: Mutex::new(open) }
    }
}

impl PartialEq for Packed {
    fn eq(&self, other: &Self) -> bool {
        self.length == other.length && self.text() == other.text()
    }
}

impl Eq for Packed {}

impl fmt::Debug for Packed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.open().fmt(f)
    }
}

/// Packs objects of one kind.
#[derive(Debug, Default)]
pub(crate) struct Packer {
    dictionary: Arc<[u8]>,
    /// How many were packed since the dictionary was chosen.
    packed: usize,
    /// How many must have been before another is.
    patience: usize,
}

impl Packer {
    /// Packs an object. Where the dictionary does not fit, the object itself is the next one: not each time, since each
    /// takes room of its own, but ever more rarely.
    pub(crate) fn pack(&mut self, object: &Arc<Object>) -> Packed {
        let packed = Packed::against(object, &self.dictionary);
        self.packed += 1;
        if packed.bytes.len() * FITTING > packed.length && self.packed > self.patience {
            let text = packed.text();
            self.dictionary = text[text.len().saturating_sub(WINDOW)..].into();
            self.patience = self.patience.max(1) * 2;
            self.packed = 0;
        }
        packed
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(name: &str, spec: &Value) -> Arc<Object> {
        let value = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "shop", "name": name}, "spec": spec,
        });
        Arc::new(Object::from_value(value).expect("an object"))
    }

    fn spec(i: usize) -> Value {
        let of = |what: &str| (0..20).map(|n| json!({"name": format!("{what}-{n}"), "value": n})).collect::<Vec<_>>();
        json!({"number": i, "environment": of("variable"), "ports": of("port")})
    }

    #[test]
    fn what_is_opened_is_what_was_packed_whatever_is_in_it() {
        let mut packer = Packer::default();
        let long = "x".repeat(3 * WINDOW);
        let odd = [
            json!({}),
            json!({"text": "ü\u{1f426}\n\"\\", "none": null, "list": [[], {}, -1, 1.5e300, 0.1, u64::MAX]}),
            json!({"float": 0.123_456_789_012_345_68, "small": 5e-324}),
            json!({"long": long}),
            spec(1),
            spec(2),
        ];
        for (i, spec) in odd.iter().cycle().take(40).enumerate() {
            let object = object(&format!("object-{i}"), spec);
            let (packed, alone) = (packer.pack(&object), Packed::alone(&object));
            let original = object.as_ref().clone();
            drop(object);
            assert_eq!(*packed.open(), original);
            assert_eq!(*alone.open(), original);
            assert_eq!(packed, alone, "whatever they were packed against");
        }
    }

    #[test]
    fn as_long_as_somebody_has_the_object_everybody_gets_that_one() {
        let mut packer = Packer::default();
        let object = object("a", &spec(1));
        let packed = packer.pack(&object);
        assert!(Arc::ptr_eq(&packed.open(), &object));
        drop(object);
        let again = packed.open();
        assert!(Arc::ptr_eq(&packed.open(), &again));
    }

    #[test]
    fn objects_that_are_alike_take_a_small_part_of_their_text() {
        let mut packer = Packer::default();
        let objects: Vec<_> = (0..100).map(|i| object(&format!("object-{i}"), &spec(i))).collect();
        let packed: Vec<_> = objects.iter().map(|object| packer.pack(object)).collect();
        let (bytes, text) = packed.iter().skip(2).fold((0, 0), |sum, p| (sum.0 + p.bytes.len(), sum.1 + p.length));
        assert!(bytes * 10 < text, "{bytes} of {text}");
    }

    #[test]
    fn objects_that_are_not_alike_do_not_each_become_a_dictionary() {
        let mut packer = Packer::default();
        let noise = |seed: u64| -> String {
            let mut state = seed;
            let next = || {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                char::from(b'a' + u8::try_from(state >> 59).expect("five bits") % 26)
            };
            std::iter::repeat_with(next).take(500).collect()
        };
        let mut dictionaries: Vec<Arc<[u8]>> = Vec::new();
        for i in 0..1_000 {
            let packed = packer.pack(&object("noise", &json!({"data": noise(i)})));
            if dictionaries.last().is_none_or(|last| !Arc::ptr_eq(last, &packed.dictionary)) {
                dictionaries.push(packed.dictionary);
            }
        }
        assert!(dictionaries.len() <= 12, "{}", dictionaries.len());
    }
}
