//! What the kernels of the lanes do, in operations, and how fast that could be at best.

use tabane_lanes::{Algorithm, Backend, aes, peak};

use super::bound::Operations;
use super::class::Class;
use super::class::Class::{Add, Aes, ByteShuffle, CrossShuffle, Logic, Rotate, Shift, Unpack};
use super::model::Model;
use super::width::Width;

/// The most lanes that a kernel may have.
const LANES_MAX: usize = 128;

/// What a kernel does to one block in each of its lanes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Work {
    /// Of the registers.
    pub width: Width,
    /// Messages at once.
    pub lanes: usize,
    /// Bytes of all of them.
    pub bytes: usize,
    /// Everything but loads, stores and copies.
    pub operations: Operations,
    /// The longest chain of operations that wait for each other, from one block of a message to the
    /// next.
    pub chain: Operations,
}

/// How fast a kernel could be at best.
#[derive(Clone, Debug, PartialEq)]
pub struct Peak {
    /// The kernel's lanes.
    pub lanes: usize,
    /// Least cycles for one block in each lane, by the number of operations.
    pub cycles: f64,
    /// What needs these cycles.
    pub by: String,
    /// Least cycles from one block of a message to its next. As long as they are more than
    /// `cycles`, more lanes at once would be faster.
    pub latency_cycles: f64,
    /// Bytes a cycle of one core that the operations allow.
    pub bytes_per_cycle: f64,
    /// Bytes a cycle of one core with these lanes alone, by operations and latency.
    pub alone_bytes_per_cycle: f64,
}

impl Work {
    /// At best on these ports; `None` where something was not measured.
    pub fn peak(&self, model: &Model) -> Option<Peak> {
        let ports = model.ports(self.width)?;
        let bound = ports.bound(&self.operations)?;
        let latency_cycles = ports.latency(&self.chain)?;
        Some(Peak {
            lanes: self.lanes,
            cycles: bound.cycles,
            by: bound.by,
            latency_cycles,
            bytes_per_cycle: self.bytes as f64 / bound.cycles,
            alone_bytes_per_cycle: self.bytes as f64 / bound.cycles.max(latency_cycles),
        })
    }
}

/// The kernels of a backend for a hash, as far as they are made of lanes.
pub fn hash(algorithm: Algorithm, backend: Backend) -> Vec<Work> {
    let kernel = |lanes| {
        let counted = peak::operations(algorithm, backend, lanes)?;
        if counted.hash > 0 {
            return None;
        }
        let width = Width::ALL
            .into_iter()
            .find(|width| width.bits() == counted.register_bits)?;
        let counts = [
            (Add, counted.add),
            (Logic, counted.logic),
            (Rotate, counted.rotate),
            (Shift, counted.shift),
            (Unpack, counted.unpack),
            (ByteShuffle, counted.byte_shuffle),
            (CrossShuffle, counted.part_shuffle),
        ];
        Some(Work {
            width,
            lanes,
            bytes: counted.bytes as usize,
            operations: Operations::new(&counts),
            chain: chain(algorithm, counted.rotate > 0),
        })
    };
    (2..=LANES_MAX).filter_map(kernel).collect()
}

/// The chain through the state of a hash: for each step the way from the newest variable to the
/// next newest, with everything else added up before. `rotates`: whether a rotation is one
/// instruction, as then is logic on three operands.
fn chain(algorithm: Algorithm, rotates: bool) -> Operations {
    let rotate: &[Class] = if rotates { &[Rotate] } else { &[Shift, Logic] };
    let xor3: &[Class] = if rotates { &[Logic] } else { &[Logic, Logic] };
    let (steps, step) = match algorithm {
        // b + ((a + f(b, c, d) + k + m) <<< s)
        Algorithm::Md5 => (64, [&[Logic, Add][..], rotate, &[Add]]),
        // (a <<< 5) + f(b, c, d) + e + k + w
        Algorithm::Sha1 => (80, [rotate, &[Add], &[]]),
        // d + (h + S(e) + Ch(e, f, g) + k + w)
        Algorithm::Sha224 | Algorithm::Sha256 => (64, [rotate, xor3, &[Add]]),
        _ => (80, [rotate, xor3, &[Add]]),
    };
    let step = step.concat().into_iter().map(|class| (class, steps));
    // At the end the state before the block is added.
    Operations::new(&step.chain([(Add, 1)]).collect::<Vec<_>>())
}

/// A mode of AES.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum AesMode {
    /// Encryption in CBC mode: a block waits for the one before.
    CbcEncrypt,
    /// Decryption in CBC mode.
    CbcDecrypt,
    /// Counter mode.
    Ctr,
    /// Encryption of each block by itself.
    Ecb,
}

/// What a backend does for one register of blocks in a mode of AES; nothing is known of the
/// portable one.
pub fn aes(mode: AesMode, key_bits: usize, backend: aes::Backend) -> Option<Work> {
    let width = match backend {
        aes::Backend::Portable => return None,
        aes::Backend::AesNi | aes::Backend::ArmCe => Width::W128,
        aes::Backend::Vaes256 => Width::W256,
        aes::Backend::Vaes => Width::W512,
    };
    let blocks = width.bits() / 128;
    let rounds = key_bits as u32 / 32 + 6;
    // At 512 bits, logic has three operands.
    let two = if width == Width::W512 { 1 } else { 2 };
    let (others, chain): (&[_], &[_]) = match mode {
        // Blocks come from and go to as many messages as there are in a register.
        AesMode::CbcEncrypt => (
            &[(Logic, two + blocks - 1), (CrossShuffle, blocks - 1)],
            &[(Logic, 1), (Aes, rounds)],
        ),
        AesMode::CbcDecrypt => (&[(Logic, 2), (CrossShuffle, u32::from(blocks > 1))], &[]),
        AesMode::Ctr => (&[(Logic, 2)], &[]),
        AesMode::Ecb => (&[(Logic, 1)], &[]),
    };
    Some(Work {
        width,
        lanes: blocks as usize,
        bytes: 16 * blocks as usize,
        operations: Operations::new(&[others, &[(Aes, rounds)]].concat()),
        chain: Operations::new(chain),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn hashes() {
        let works = hash(Algorithm::Sha1, Backend::Avx512);
        let sixteen = works.iter().find(|work| work.lanes == 16).unwrap();
        assert_eq!((sixteen.width, sixteen.bytes), (Width::W512, 1024));
        assert_eq!(sixteen.operations.computing(), 837.0);
        assert_eq!(
            (sixteen.chain.of(Add), sixteen.chain.of(Rotate)),
            (81.0, 80.0)
        );
        let four = hash(Algorithm::Sha1, Backend::Sse41);
        assert_eq!((four[0].width, four[0].lanes), (Width::W128, 4));
        assert_eq!(
            (four[0].chain.of(Shift), four[0].chain.of(Rotate)),
            (80.0, 0.0)
        );
        assert_eq!(hash(Algorithm::Sha1, Backend::ShaNi), []);
        for &algorithm in Algorithm::ALL {
            let backends = [Backend::Sse41, Backend::Avx2, Backend::Avx512];
            assert!(
                backends
                    .iter()
                    .all(|&backend| !hash(algorithm, backend).is_empty())
            );
        }
    }

    #[test]
    fn modes_of_aes() {
        let work = aes(AesMode::CbcEncrypt, 128, aes::Backend::Vaes).unwrap();
        assert_eq!(
            (work.lanes, work.bytes, work.operations.of(Aes)),
            (4, 64, 10.0)
        );
        assert_eq!(work.chain.of(Aes), 10.0);
        let work = aes(AesMode::Ctr, 256, aes::Backend::AesNi).unwrap();
        assert_eq!((work.operations.of(Aes), work.chain.of(Aes)), (14.0, 0.0));
        assert_eq!(aes(AesMode::Ecb, 128, aes::Backend::Portable), None);
    }
}
