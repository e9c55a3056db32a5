// AES-128 and AES-256 under one key: ECB, CTR and CBC (NIST SP 800-38A) of many messages.
//
// Work comes in items: a message, or a part of a long one. In ECB, CTR and CBC decryption `lanes` threads share an item, a power of
// two up to 32; neighbours take neighbouring blocks, so that their reads are one. In CBC encryption, which is a chain, an item is a
// whole message, and one thread's. `to` has the layout of `from`, and may be it, but for CBC decryption.
#include "aes_bits.h"
#include "aes_tables.h"

struct Item {
    // Where it begins, in bytes, a multiple of 16.
    u64 offset;
    // Only CTR takes lengths that are no multiple of 16.
    u32 bytes;
    // CBC decryption: the block before is in `from`, not in `vector`.
    u32 continues;
    // CTR: its first counter block; CBC: the initialization vector.
    u32 vector[4];
};

enum Mode { ECB, CTR, CBC };

// In a block of threads that work by bits.
#define BITS_THREADS 128

static __device__ __forceinline__ Block load(const u8 *from) {
    const uint4 v = *(const uint4 *)from;
    return {{v.x, v.y, v.z, v.w}};
}

static __device__ __forceinline__ void store(u8 *to, Block block) {
    uint4 v;
    v.x = block.c[0], v.y = block.c[1], v.z = block.c[2], v.w = block.c[3];
    *(uint4 *)to = v;
}

// The counter block, a big-endian number, and so many more.
static __device__ __forceinline__ Block counter(const u32 *first, u32 more) {
    Block block;
    u32 add = more;
#pragma unroll
    for (int i = 3; i >= 0; i--) {
        const u32 word = swap_bytes(first[i]);
        const u32 sum = word + add;
        add = sum < word;
        block.c[i] = swap_bytes(sum);
    }
    return block;
}

// Exclusive or with the key stream; of a last part of a block byte by byte.
static __device__ __forceinline__ void apply(const u8 *from, u8 *to, u32 bytes, Block stream) {
    if (bytes >= 16) {
        store(to, xor_blocks(load(from), stream));
        return;
    }
    // Unrolled, so that the stream stays in registers.
#pragma unroll
    for (u32 i = 0; i < 16; i++) {
        if (i < bytes) to[i] = from[i] ^ (u8)byte_of(stream.c[i / 4], i % 4);
    }
}

template <Mode MODE, bool DECRYPT>
static __device__ __forceinline__ void by_tables(const u32 *columns, const u32 *inverse, const u32 *round_keys, u32 rounds,
                                                 const Item *items, u32 count, u32 lanes, const u8 *from, u8 *to) {
    __shared__ Tables tables;
    fill(&tables, columns, inverse, round_keys, rounds);
    const u32 thread = blockIdx.x * blockDim.x + threadIdx.x;
    const u32 together = gridDim.x * blockDim.x / lanes;
    for (u32 i = thread / lanes; i < count; i += together) {
        const Item item = items[i];
        for (u32 block = thread % lanes; block * 16 < item.bytes; block += lanes) {
            const u64 at = item.offset + (u64)block * 16;
            if (MODE == CTR) {
                const Block stream = cipher<false>(&tables, rounds, counter(item.vector, block));
                apply(from + at, to + at, item.bytes - 16 * block, stream);
            } else {
                Block result = cipher<DECRYPT>(&tables, rounds, load(from + at));
                if (MODE == CBC) {
                    const Block vector = {{item.vector[0], item.vector[1], item.vector[2], item.vector[3]}};
                    result = xor_blocks(result, block || item.continues ? load(from + at - 16) : vector);
                }
                store(to + at, result);
            }
        }
    }
}

template <Mode MODE>
static __device__ __forceinline__ void by_bits(const u32 *round_keys, u32 rounds, const Item *items, u32 count, u32 lanes,
                                               const u8 *from, u8 *to) {
    __shared__ u32 keys[15 * 128];
    __shared__ Block rest[BITS_THREADS];
    for (u32 i = threadIdx.x; i < (rounds + 1) * 128; i += blockDim.x) keys[i] = -(round_keys[i / 32] >> (i % 32) & 1);
    __syncthreads();
    const u32 thread = blockIdx.x * blockDim.x + threadIdx.x;
    const u32 together = gridDim.x * blockDim.x / lanes;
    for (u32 i = thread / lanes; i < count; i += together) {
        const Item *item = items + i;
        const u32 bytes = item->bytes;
        const u64 offset = item->offset;
        // The blocks of a thread are `lanes` apart, so that each read is of neighbours.
        const u32 stride = 16 * lanes;
        for (u32 first = 16 * (thread % lanes); first < bytes; first += 32 * stride) {
            u32 s[4][32];
            if (MODE == CTR) {
                counters(s, item->vector, first / 16, lanes);
            } else {
#pragma unroll
                for (int c = 0; c < 4; c++) {
                    u32 at = first;
#pragma unroll
                    for (int b = 0; b < 32; b++, at += stride) {
                        s[c][b] = at < bytes ? *(const u32 *)(from + offset + at + 4 * c) : 0;
                    }
                    transpose(s[c]);
                    separate();
                }
            }
            encrypt_bits(s, keys, rounds);
#pragma unroll
            for (int c = 0; c < 4; c++) {
                transpose(s[c]);
                separate();
            }
            u32 at = first;
#pragma unroll
            for (int b = 0; b < 32; b++, at += stride) {
                if (at >= bytes) break;
                Block output = {{s[0][b], s[1][b], s[2][b], s[3][b]}};
                const u64 place = offset + at;
                if (MODE == CTR && bytes - at < 16) {
                    rest[threadIdx.x] = output;
                    break;
                }
                if (MODE == CTR) output = xor_blocks(output, load(from + place));
                store(to + place, output);
            }
            // One copy of this code for all blocks, for which the stream has to be in memory.
            const u32 whole = bytes / 16 * 16;
            if (MODE == CTR && whole < bytes && whole >= first && whole - first < 32 * stride && (whole - first) % stride == 0) {
                const u64 place = offset + whole;
                apply(from + place, to + place, bytes - whole, rest[threadIdx.x]);
            }
        }
    }
}

#define BY_TABLES(name, MODE, DECRYPT)                                                                                          \
    extern "C" __global__ void __launch_bounds__(256)                                                                           \
        name(const u32 *columns, const u32 *inverse, const u32 *round_keys, u32 rounds, const Item *items, u32 count,           \
             u32 lanes, const u8 *from, u8 *to) {                                                                               \
        by_tables<MODE, DECRYPT>(columns, inverse, round_keys, rounds, items, count, lanes, from, to);                          \
    }

BY_TABLES(aes_ecb_encrypt, ECB, false)
BY_TABLES(aes_ecb_decrypt, ECB, true)
BY_TABLES(aes_ctr, CTR, false)
BY_TABLES(aes_cbc_decrypt, CBC, true)

extern "C" __global__ void __launch_bounds__(256)
    aes_cbc_encrypt(const u32 *columns, const u32 *round_keys, u32 rounds, const Item *items, u32 count, const u8 *from, u8 *to) {
    __shared__ Tables tables;
    fill(&tables, columns, 0, round_keys, rounds);
    const u32 i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    const Item item = items[i];
    Block chain = {{item.vector[0], item.vector[1], item.vector[2], item.vector[3]}};
    for (u32 block = 0; block * 16 < item.bytes; block++) {
        const u64 at = item.offset + (u64)block * 16;
        chain = cipher<false>(&tables, rounds, xor_blocks(chain, load(from + at)));
        store(to + at, chain);
    }
}

#define BY_BITS(name, MODE)                                                                                                     \
    extern "C" __global__ void __launch_bounds__(BITS_THREADS) name(const u32 *round_keys, u32 rounds, const Item *items, u32 count,     \
                                                           u32 lanes, const u8 *from, u8 *to) {                                 \
        by_bits<MODE>(round_keys, rounds, items, count, lanes, from, to);                                                       \
    }

BY_BITS(aes_ecb_encrypt_bits, ECB)
BY_BITS(aes_ctr_bits, CTR)
