//! Reads MessagePack, as far as borg writes it.

/// Levels of lists and maps at most.
const DEPTH_MAX: usize = 32;

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Nil,
    Bool(bool),
    Int(i128),
    Float(f64),
    /// Text or bytes, which borg does not tell apart.
    Bytes(Vec<u8>),
    List(Vec<Value>),
    Map(Vec<(Value, Value)>),
}

impl Value {
    /// Reads one value; returns it with what is behind it. `Ok(None)` if the bytes end before the
    /// value does.
    ///
    /// # Errors
    /// What is wrong with the bytes.
    pub fn read(bytes: &[u8]) -> Result<Option<(Self, &[u8])>, String> {
        let mut reader = Reader { rest: bytes };
        match reader.value(0) {
            Ok(value) => Ok(Some((value, reader.rest))),
            Err(Stop::End) => Ok(None),
            Err(Stop::Wrong(why)) => Err(why),
        }
    }

    /// Reads the only value in `bytes`.
    ///
    /// # Errors
    /// What is wrong with the bytes.
    pub fn only(bytes: &[u8]) -> Result<Self, String> {
        match Self::read(bytes)? {
            Some((value, [])) => Ok(value),
            Some(_) => Err("something is behind its end".to_owned()),
            None => Err("it is cut short".to_owned()),
        }
    }

    /// What a map has under a key.
    pub fn get(&self, key: &str) -> Option<&Self> {
        let Self::Map(pairs) = self else {
            return None;
        };
        let is_key = |found: &Value| matches!(found, Self::Bytes(bytes) if bytes == key.as_bytes());
        let found = pairs.iter().find(|(found, _)| is_key(found));
        found
            .map(|(_, value)| value)
            .filter(|value| **value != Self::Nil)
    }

    /// The bytes that a map has under a key.
    pub fn bytes(&self, key: &str) -> Option<&[u8]> {
        match self.get(key)? {
            Self::Bytes(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// The text that a map has under a key.
    pub fn text(&self, key: &str) -> Option<String> {
        Some(String::from_utf8_lossy(self.bytes(key)?).into_owned())
    }

    /// The number that a map has under a key; borg writes long ones as bytes, little end first.
    pub fn int(&self, key: &str) -> Option<i128> {
        match self.get(key)? {
            Self::Int(number) => Some(*number),
            Self::Bool(value) => Some((*value).into()),
            Self::Bytes(bytes) if (1..=16).contains(&bytes.len()) => {
                let sign = if bytes.last()? & 0x80 == 0 { 0 } else { 0xff };
                let mut wide = [sign; 16];
                wide[..bytes.len()].copy_from_slice(bytes);
                Some(i128::from_le_bytes(wide))
            }
            _ => None,
        }
    }

    /// The list that a map has under a key; an empty one if there is none.
    pub fn list(&self, key: &str) -> &[Self] {
        match self.get(key) {
            Some(Self::List(values)) => values,
            _ => &[],
        }
    }

    /// The pairs of a map under a key; none if there is none.
    pub fn map(&self, key: &str) -> &[(Self, Self)] {
        match self.get(key) {
            Some(Self::Map(pairs)) => pairs,
            _ => &[],
        }
    }
}

/// Why nothing more can be read.
enum Stop {
    End,
    Wrong(String),
}

struct Reader<'b> {
    rest: &'b [u8],
}

impl<'b> Reader<'b> {
    fn take(&mut self, len: usize) -> Result<&'b [u8], Stop> {
        self.rest.split_off(..len).ok_or(Stop::End)
    }

    fn number<const N: usize>(&mut self) -> Result<u64, Stop> {
        let bytes = self.take(N)?;
        Ok(bytes
            .iter()
            .fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    fn bytes(&mut self, len: u64) -> Result<Value, Stop> {
        let len = usize::try_from(len).map_err(|_| Stop::End)?;
        Ok(Value::Bytes(self.take(len)?.to_vec()))
    }

    fn list(&mut self, len: u64, depth: usize) -> Result<Value, Stop> {
        // Its length may be wrong: room is made as values come.
        let mut values = Vec::new();
        for _ in 0..len {
            values.push(self.value(depth + 1)?);
        }
        Ok(Value::List(values))
    }

    fn map(&mut self, len: u64, depth: usize) -> Result<Value, Stop> {
        let mut pairs = Vec::new();
        for _ in 0..len {
            pairs.push((self.value(depth + 1)?, self.value(depth + 1)?));
        }
        Ok(Value::Map(pairs))
    }

    fn value(&mut self, depth: usize) -> Result<Value, Stop> {
        if depth > DEPTH_MAX {
            return Err(Stop::Wrong("it has too many levels".to_owned()));
        }
        let code = self.take(1)?[0];
        match code {
            0x00..=0x7f => Ok(Value::Int(code.into())),
            0x80..=0x8f => self.map((code & 15).into(), depth),
            0x90..=0x9f => self.list((code & 15).into(), depth),
            0xa0..=0xbf => self.bytes((code & 31).into()),
            0xc0 => Ok(Value::Nil),
            0xc2 | 0xc3 => Ok(Value::Bool(code == 0xc3)),
            0xc4 | 0xd9 => self.number::<1>().and_then(|len| self.bytes(len)),
            0xc5 | 0xda => self.number::<2>().and_then(|len| self.bytes(len)),
            0xc6 | 0xdb => self.number::<4>().and_then(|len| self.bytes(len)),
            0xca => self
                .number::<4>()
                .map(|bits| Value::Float(f32::from_bits(bits as u32).into())),
            0xcb => self
                .number::<8>()
                .map(|bits| Value::Float(f64::from_bits(bits))),
            0xcc => self.number::<1>().map(|number| Value::Int(number.into())),
            0xcd => self.number::<2>().map(|number| Value::Int(number.into())),
            0xce => self.number::<4>().map(|number| Value::Int(number.into())),
            0xcf => self.number::<8>().map(|number| Value::Int(number.into())),
            0xd0 => self
                .number::<1>()
                .map(|number| Value::Int((number as i8).into())),
            0xd1 => self
                .number::<2>()
                .map(|number| Value::Int((number as i16).into())),
            0xd2 => self
                .number::<4>()
                .map(|number| Value::Int((number as i32).into())),
            0xd3 => self
                .number::<8>()
                .map(|number| Value::Int((number as i64).into())),
            0xdc => self.number::<2>().and_then(|len| self.list(len, depth)),
            0xdd => self.number::<4>().and_then(|len| self.list(len, depth)),
            0xde => self.number::<2>().and_then(|len| self.map(len, depth)),
            0xdf => self.number::<4>().and_then(|len| self.map(len, depth)),
            0xe0..=0xff => Ok(Value::Int((code as i8).into())),
            _ => Err(Stop::Wrong(format!(
                "it has a value of the unknown type {code:#x}"
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_and_ends_are_told_from_mistakes() {
        let bytes = [
            &[0x83][..],
            b"\xa1a\x93\x01\xff\xd1\xff\x00",
            b"\xc4\x01b\xc0",
            b"\xda\x00\x01c\xcf\xff\xff\xff\xff\xff\xff\xff\xff",
        ]
        .concat();
        let value = Value::only(&bytes).expect("a map");
        let numbers = [1, -1, -256].map(Value::Int);
        assert_eq!(value.list("a"), numbers);
        assert_eq!(
            (value.get("b"), value.int("c")),
            (None, Some(u64::MAX.into()))
        );
        for len in 0..bytes.len() {
            assert_eq!(Value::read(&bytes[..len]), Ok(None), "{len}");
        }
        let (first, rest) = Value::read(b"\x01\x02").expect("right").expect("whole");
        assert_eq!((first, rest), (Value::Int(1), &[2][..]));
        assert!(Value::read(&[0xc1]).is_err());
        assert!(Value::read(&[0x91; 100]).is_err());
        let long = Value::Map(vec![(
            Value::Bytes(b"t".to_vec()),
            Value::Bytes(vec![0xfe, 0xff]),
        )]);
        assert_eq!(long.int("t"), Some(-2));
    }
}
