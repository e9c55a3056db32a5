// The gear hash of content-defined chunking at every position of data, a stretch of them a thread.
//
// Over the 32 bytes b that end at a position it is the sum of table[b[31-k]] << k, modulo 2^32. A thread goes once over the 32 bytes
// before its stretch, and rolls from there on. What is below a limit is rare, so that only the lowest hash of 32 positions is kept
// at first; where it is below, the 32 are rolled over once more and written down.
#include "words.h"

#define WINDOW 32u
#define STRETCH 512u
#define COPIES 32u

// Of 32 positions from 32 * number on those at which the hash is below the limits, the first in the lowest bit.
struct Below {
    u32 number, lax, strict;
};

// A copy of the table for each of the 32 banks of shared memory: of a byte's number the copies of all lanes, side by side.
struct Copies {
    u32 words[256 * COPIES];
};

static __device__ __forceinline__ u32 roll(const Copies *table, u32 lane, u32 hash, u32 word, u32 byte) {
    // The byte times 32 copies, times 4 bytes.
    const u32 at = (byte ? word >> (8 * byte - 7) : word << 7) & 0x7f80;
    return 2 * hash + *(const u32 *)((const u8 *)table->words + (at | lane));
}

// Rolls over 32 bytes; returns the lowest hash.
static __device__ __forceinline__ u32 lowest(const Copies *table, u32 lane, u32 *hash, const u32 *words) {
    u32 least = 0xffffffff;
#pragma unroll
    for (u32 i = 0; i < WINDOW; i++) {
        *hash = roll(table, lane, *hash, words[i / 4], i % 4);
        least = *hash < least ? *hash : least;
    }
    return least;
}

// 32 bytes, of which `there` exist; what else lies in the last 16 may be anything.
static __device__ __forceinline__ void load(const u8 *from, u32 there, u32 *words) {
    const uint4 none = {0, 0, 0, 0};
    const uint4 a = *(const uint4 *)from, b = there > 16 ? *(const uint4 *)(from + 16) : none;
    words[0] = a.x, words[1] = a.y, words[2] = a.z, words[3] = a.w;
    words[4] = b.x, words[5] = b.y, words[6] = b.z, words[7] = b.w;
}

// `data` begins at a multiple of 16; its first 32 bytes are a window alone. What is found goes to `found`, in any order, as far as
// there is room for so many, and `count` counts all of it.
extern "C" __global__ void __launch_bounds__(256)
    gear_below(const u8 *data, u32 length, const u32 *numbers, u32 strict, u32 lax, u32 room, u32 *count, Below *found) {
    __shared__ Copies table;
    for (u32 i = threadIdx.x; i < 256 * COPIES; i += blockDim.x) table.words[i] = numbers[i / COPIES];
    __syncthreads();
    const u32 lane = threadIdx.x % COPIES * 4;
    const u32 start = WINDOW + (blockIdx.x * blockDim.x + threadIdx.x) * STRETCH;
    if (start >= length) return;
    u32 words[WINDOW / 4], hash = 0;
    load(data + start - WINDOW, WINDOW, words);
    lowest(&table, lane, &hash, words);
    const u32 end = length - start < STRETCH ? length : start + STRETCH;
    for (u32 at = start; at < end; at += WINDOW) {
        const u32 before = hash;
        load(data + at, end - at, words);
        if (lowest(&table, lane, &hash, words) >= lax) continue;
        Below below = {at / WINDOW, 0, 0};
        u32 again = before;
#pragma unroll
        for (u32 i = 0; i < WINDOW; i++) {
            again = roll(&table, lane, again, words[i / 4], i % 4);
            if (at + i < end) {
                below.lax |= (u32)(again < lax) << i;
                below.strict |= (u32)(again < strict) << i;
            }
        }
        if (!below.lax) continue;
        const u32 place = atomicAdd(count, 1);
        if (place < room) found[place] = below;
    }
}
