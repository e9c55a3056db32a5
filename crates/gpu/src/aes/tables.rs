//! The tables of AES.

/// S-boxes and columns, by the definition.
pub(super) struct Tables {
    substitute: [u8; 256],
    inverse: [u8; 256],
    encrypt: [u32; 256],
    decrypt: [u32; 256],
}

pub(super) static TABLES: Tables = Tables::new();

impl Tables {
    const fn new() -> Self {
        let mut tables = Self {
            substitute: [0; 256],
            inverse: [0; 256],
            encrypt: [0; 256],
            decrypt: [0; 256],
        };
        // The powers of 3 are all bytes but 0, and those of its inverse, 0xf6, are their inverses.
        let (mut byte, mut inverse) = (1_u8, 1_u8);
        let mut i = 0;
        while i < 256 {
            let inverted = if i == 255 { 0 } else { inverse };
            let at = if i == 255 { 0 } else { byte };
            let result = inverted
                ^ inverted.rotate_left(1)
                ^ inverted.rotate_left(2)
                ^ inverted.rotate_left(3)
                ^ inverted.rotate_left(4)
                ^ 0x63;
            tables.substitute[at as usize] = result;
            tables.inverse[result as usize] = at;
            byte = multiply(byte, 3);
            inverse = multiply(inverse, 0xf6);
            i += 1;
        }
        i = 0;
        while i < 256 {
            let (s, t) = (tables.substitute[i], tables.inverse[i]);
            tables.encrypt[i] = u32::from_le_bytes([multiply(s, 2), s, s, multiply(s, 3)]);
            tables.decrypt[i] = u32::from_le_bytes([
                multiply(t, 14),
                multiply(t, 9),
                multiply(t, 13),
                multiply(t, 11),
            ]);
            i += 1;
        }
        tables
    }

    /// As they lie on a card.
    pub(super) fn bytes(&self) -> Vec<u8> {
        let words = self.encrypt.iter().chain(&self.decrypt);
        let bytes = words.flat_map(|word| word.to_le_bytes());
        bytes.chain(self.inverse).collect()
    }

    pub(super) fn substitute_word(&self, word: u32) -> u32 {
        u32::from_le_bytes(
            word.to_le_bytes()
                .map(|byte| self.substitute[byte as usize]),
        )
    }

    /// InvMixColumns of a column.
    pub(super) fn unmix(&self, column: u32) -> u32 {
        let bytes = column.to_le_bytes().into_iter().zip(0..);
        bytes.fold(0, |sum, (byte, row): (u8, u32)| {
            sum ^ self.decrypt[self.substitute[byte as usize] as usize].rotate_left(8 * row)
        })
    }
}

/// A product modulo x⁸ + x⁴ + x³ + x + 1.
pub(super) const fn multiply(mut a: u8, mut b: u8) -> u8 {
    let mut product = 0;
    while b != 0 {
        if b & 1 != 0 {
            product ^= a;
        }
        a = a << 1 ^ (if a & 0x80 != 0 { 0x1b } else { 0 });
        b >>= 1;
    }
    product
}
