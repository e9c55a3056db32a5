// Hashes of many independent messages, one a thread.
//
// A message is one number: where it begins in `data`, in bytes, times 2^24, and its length in bytes below that. Messages that are
// neighbours here should be about as long, since 32 threads run in step: whoever fills the table sorts it.
//
// Where a thread reads 16 bytes, its 31 neighbours read as much. For short messages (of at most `interleaved` bytes) these 512
// bytes lie side by side: of a group of 32 messages first the first 16 bytes of each, then the next 16 bytes of each, and the table
// says where the first of its message are. All others lie as a whole; there a thread uses all of each 64 bytes at once, two sectors
// of the card's memory.
#include "md5.h"
#include "sha1.h"
#include "sha256.h"

#define LENGTH_BITS 24
#define UNIT 16u
#define GROUP 32u

// Sixteen bytes as four words.
struct Unit {
    u32 w[4];
};

// How to read a message: ALIGNED ones begin at multiples of 16 bytes, others anywhere.
template <bool ALIGNED>
struct Reader {
    const u8 *from;
    u32 length;
    u32 stride;

    // Bytes from 16 * `number` on. Beyond the message is nothing that may be read; the rest of its last word may be anything.
    __device__ __forceinline__ Unit unit(u32 number) const {
        Unit unit = {{0, 0, 0, 0}};
        if (number * UNIT < length) {
            if (ALIGNED) {
                const uint4 v = *(const uint4 *)(from + (u64)number * stride);
                unit.w[0] = v.x, unit.w[1] = v.y, unit.w[2] = v.z, unit.w[3] = v.w;
            } else {
                const u32 skew = (u32)((u64)from & 3);
                const u32 *words = (const u32 *)(from - skew) + 4 * number;
                // Words of memory that have bytes of the message from here on.
                const u32 there = (skew + (length - number * UNIT) + 3) / 4;
                u32 low = words[0];
#pragma unroll
                for (u32 i = 0; i < 4; i++) {
                    const u32 high = i + 1 < there ? words[i + 1] : 0;
                    unit.w[i] = __funnelshift_r(low, high, 8 * skew);
                    low = high;
                }
            }
        }
        return unit;
    }

    __device__ __forceinline__ void block(u32 number, Unit *block) const {
#pragma unroll
        for (u32 i = 0; i < 4; i++) block[i] = unit(4 * number + i);
    }
};

// Puts the padding into block `number` of the message, which the message does not fill. The length in bits stands at the end of
// the last block.
template <class Hash>
static __device__ __forceinline__ void pad(u32 *w, u32 number, u32 length, bool last) {
#pragma unroll
    for (u32 i = 0; i < 16; i++) {
        const u32 position = 64 * number + 4 * i;
        if (position > length) {
            w[i] = 0;
        } else if (length - position < 4) {
            const u32 bits = 8 * (length - position);
            w[i] = (w[i] & ((1u << bits) - 1)) | 0x80u << bits;
        }
    }
    if (last) {
        // Messages are below 2^24 bytes, so that one word has their bits. Big-endian words are turned around later.
        const u32 bits = 8 * length;
        if (Hash::BIG_ENDIAN_WORDS) {
            w[15] = swap_bytes(bits);
        } else {
            w[14] = bits;
        }
    }
}

// Without `states`: the digests of whole messages, as bytes. With them, the words of a message's state before it: states after the
// whole blocks of what is added, as words. The result for line i of the table goes to place `order[i]`, or i where there is no order.
template <class Hash, bool ALIGNED>
static __device__ __forceinline__ void hash(const u8 *data, const u64 *messages, u32 count, u32 interleaved,
                                            const u32 *states, const u32 *order, u32 *results) {
    const u32 i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    const u64 message = messages[i];
    const u32 length = (u32)message & ((1u << LENGTH_BITS) - 1);
    const Reader<ALIGNED> reader = {data + (message >> LENGTH_BITS), length, length <= interleaved ? GROUP * UNIT : UNIT};
    const u32 full = length / 64;
    const u32 blocks = states ? full : (length + 8) / 64 + 1;
    u32 state[Hash::WORDS];
    if (states) {
#pragma unroll
        for (int k = 0; k < Hash::WORDS; k++) state[k] = states[(u64)i * Hash::WORDS + k];
    } else {
        Hash::begin(state);
    }
    // A block ahead, so that memory has as long to answer as a block takes.
    Unit next[4];
    reader.block(0, next);
    for (u32 number = 0; number < blocks; number++) {
        u32 w[16];
#pragma unroll
        for (int k = 0; k < 16; k++) w[k] = next[k / 4].w[k % 4];
        reader.block(number + 1, next);
        if (number >= full) pad<Hash>(w, number, length, number + 1 == blocks);
        if (Hash::BIG_ENDIAN_WORDS) {
#pragma unroll
            for (int k = 0; k < 16; k++) w[k] = swap_bytes(w[k]);
        }
        Hash::compress(state, w);
    }
    const u64 place = order ? order[i] : i;
#pragma unroll
    for (int k = 0; k < Hash::WORDS; k++) {
        const bool swap = Hash::BIG_ENDIAN_WORDS && !states;
        results[place * Hash::WORDS + k] = swap ? swap_bytes(state[k]) : state[k];
    }
}

#define KERNELS(name, Hash)                                                                                                     \
    extern "C" __global__ void __launch_bounds__(128)                                                                           \
        name##_aligned(const u8 *data, const u64 *messages, u32 count, u32 interleaved, const u32 *states, const u32 *order,    \
                       u32 *results) {                                                                                          \
        hash<Hash, true>(data, messages, count, interleaved, states, order, results);                                           \
    }                                                                                                                           \
    extern "C" __global__ void __launch_bounds__(128)                                                                           \
        name##_anywhere(const u8 *data, const u64 *messages, u32 count, u32 interleaved, const u32 *states, const u32 *order,   \
                        u32 *results) {                                                                                         \
        hash<Hash, false>(data, messages, count, 0, states, order, results);                                                    \
    }

KERNELS(md5, Md5)
KERNELS(sha1, Sha1)
KERNELS(sha256, Sha256)
