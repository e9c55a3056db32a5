// AES (FIPS 197) by tables in shared memory.
//
// Shared memory has 32 banks, and 32 threads run in step. So each table is there 32 times, one copy a bank, and every thread reads
// from the bank of its own: no two wait for each other, and the time says nothing of keys or data.
#pragma once
#include "words.h"

#define BANKS 32
#define MAX_ROUND_KEY_WORDS 60

// Columns of the state as words, row 0 in the lowest byte.
struct Block {
    u32 c[4];
};

// What a block of threads keeps in shared memory.
struct Tables {
    // For each byte the column that SubBytes and MixColumns, or their inverses, make of it in row 0; other rows are rotations.
    u32 columns[256 * BANKS];
    // The inverse S-box, four bytes a word. The S-box itself is in `columns`.
    u32 inverse[64 * BANKS];
    u32 round_keys[MAX_ROUND_KEY_WORDS];
};

// `columns` and `inverse` have one copy; the latter is not needed to encrypt. Ends with a barrier.
static __device__ __forceinline__ void fill(Tables *tables, const u32 *columns, const u32 *inverse, const u32 *round_keys, u32 rounds) {
    for (u32 i = threadIdx.x; i < 256 * BANKS; i += blockDim.x) tables->columns[i] = columns[i / BANKS];
    if (inverse) {
        for (u32 i = threadIdx.x; i < 64 * BANKS; i += blockDim.x) tables->inverse[i] = inverse[i / BANKS];
    }
    for (u32 i = threadIdx.x; i < 4 * (rounds + 1); i += blockDim.x) tables->round_keys[i] = round_keys[i];
    __syncthreads();
}

static __device__ __forceinline__ u32 byte_of(u32 word, u32 row) { return word >> (8 * row) & 0xff; }

static __device__ __forceinline__ Block xor_blocks(Block a, Block b) {
    Block result;
#pragma unroll
    for (int i = 0; i < 4; i++) result.c[i] = a.c[i] ^ b.c[i];
    return result;
}

// A round of either direction takes row r of column c from column c + r, or from c - r.
template <bool DECRYPT>
static __device__ __forceinline__ Block cipher(const Tables *tables, u32 rounds, Block s) {
    const u32 bank = threadIdx.x % BANKS;
    const u32 *columns = tables->columns + bank;
    const u32 *keys = tables->round_keys;
#pragma unroll
    for (int c = 0; c < 4; c++) s.c[c] ^= keys[c];
#pragma unroll 1
    for (u32 round = 1; round < rounds; round++) {
        keys += 4;
        Block next;
#pragma unroll
        for (int c = 0; c < 4; c++) {
            u32 column = keys[c];
#pragma unroll
            for (int r = 0; r < 4; r++) {
                const u32 from = s.c[(DECRYPT ? c + 4 - r : c + r) % 4];
                column ^= rotate_left(columns[byte_of(from, r) * BANKS], 8 * r);
            }
            next.c[c] = column;
        }
        s = next;
    }
    keys += 4;
    Block last;
#pragma unroll
    for (int c = 0; c < 4; c++) {
        u32 column = 0;
#pragma unroll
        for (int r = 0; r < 4; r++) {
            const u32 byte = byte_of(s.c[(DECRYPT ? c + 4 - r : c + r) % 4], r);
            const u32 substituted = DECRYPT ? byte_of(tables->inverse[byte / 4 * BANKS + bank], byte % 4)
                                            : byte_of(columns[byte * BANKS], 1);
            column |= substituted << (8 * r);
        }
        last.c[c] = column ^ keys[c];
    }
    return last;
}
