// AES (FIPS 197) encryption of 32 blocks in a thread, bit by bit: word k of a column holds bit k of that column in each of the
// blocks. No tables, and the time says nothing of keys or data.
#pragma once
#include "words.h"

// Compilers would rather do several of the steps at once that this stands between, and then 255 registers do not suffice. Over
// this they move nothing.
static __device__ __forceinline__ void separate() { __syncwarp(__activemask()); }

// Exchanges the number of a word and the number of a bit. Undoes itself.
static __device__ __forceinline__ void transpose(u32 *words) {
#pragma unroll
    for (int stage = 0; stage < 5; stage++) {
        const int distance = 1 << stage;
        const u32 mask = stage == 0   ? 0x55555555
                         : stage == 1 ? 0x33333333
                         : stage == 2 ? 0x0f0f0f0f
                         : stage == 3 ? 0x00ff00ff
                                      : 0x0000ffff;
#pragma unroll
        for (int i = 0; i < 32; i++) {
            if (i & distance) continue;
            const u32 swap = (words[i] >> distance ^ words[i + distance]) & mask;
            words[i] ^= swap << distance;
            words[i + distance] ^= swap;
        }
    }
}

// SubBytes of the byte in eight words, the lowest bit first: the circuit of 113 gates by Boyar and Peralta (A depth-16 circuit for
// the AES S-box, 2011).
static __device__ __forceinline__ void substitute(u32 *x) {
    const u32 x7 = x[0], x6 = x[1], x5 = x[2], x4 = x[3], x3 = x[4], x2 = x[5], x1 = x[6], x0 = x[7];
    const u32 y14 = x3 ^ x5;
    const u32 y13 = x0 ^ x6;
    const u32 y9 = x0 ^ x3;
    const u32 y8 = x0 ^ x5;
    const u32 t0 = x1 ^ x2;
    const u32 y1 = t0 ^ x7;
    const u32 y4 = y1 ^ x3;
    const u32 y12 = y13 ^ y14;
    const u32 y2 = y1 ^ x0;
    const u32 y5 = y1 ^ x6;
    const u32 y3 = y5 ^ y8;
    const u32 t1 = x4 ^ y12;
    const u32 y15 = t1 ^ x5;
    const u32 y20 = t1 ^ x1;
    const u32 y6 = y15 ^ x7;
    const u32 y10 = y15 ^ t0;
    const u32 y11 = y20 ^ y9;
    const u32 y7 = x7 ^ y11;
    const u32 y17 = y10 ^ y11;
    const u32 y19 = y10 ^ y8;
    const u32 y16 = t0 ^ y11;
    const u32 y21 = y13 ^ y16;
    const u32 y18 = x0 ^ y16;

    const u32 t2 = y12 & y15;
    const u32 t4 = (y3 & y6) ^ t2;
    const u32 t6 = (y4 & x7) ^ t2;
    const u32 t7 = y13 & y16;
    const u32 t9 = (y5 & y1) ^ t7;
    const u32 t11 = (y2 & y7) ^ t7;
    const u32 t12 = y9 & y11;
    const u32 t14 = (y14 & y17) ^ t12;
    const u32 t16 = (y8 & y10) ^ t12;
    const u32 t21 = t4 ^ t14 ^ y20;
    const u32 t22 = t6 ^ t16 ^ y19;
    const u32 t23 = t9 ^ t14 ^ y21;
    const u32 t24 = t11 ^ t16 ^ y18;

    const u32 t25 = t21 ^ t22;
    const u32 t26 = t21 & t23;
    const u32 t27 = t24 ^ t26;
    const u32 t29 = (t25 & t27) ^ t22;
    const u32 t30 = t23 ^ t24;
    const u32 t31 = t22 ^ t26;
    const u32 t33 = (t31 & t30) ^ t24;
    const u32 t34 = t23 ^ t33;
    const u32 t35 = t27 ^ t33;
    const u32 t36 = t24 & t35;
    const u32 t37 = t36 ^ t34;
    const u32 t38 = t27 ^ t36;
    const u32 t40 = t25 ^ (t29 & t38);

    const u32 t41 = t40 ^ t37;
    const u32 t42 = t29 ^ t33;
    const u32 t43 = t29 ^ t40;
    const u32 t44 = t33 ^ t37;
    const u32 t45 = t42 ^ t41;
    const u32 z0 = t44 & y15;
    const u32 z1 = t37 & y6;
    const u32 z2 = t33 & x7;
    const u32 z3 = t43 & y16;
    const u32 z4 = t40 & y1;
    const u32 z5 = t29 & y7;
    const u32 z6 = t42 & y11;
    const u32 z7 = t45 & y17;
    const u32 z8 = t41 & y10;
    const u32 z9 = t44 & y12;
    const u32 z10 = t37 & y3;
    const u32 z11 = t33 & y4;
    const u32 z12 = t43 & y13;
    const u32 z13 = t40 & y5;
    const u32 z14 = t29 & y2;
    const u32 z15 = t42 & y9;
    const u32 z16 = t45 & y14;
    const u32 z17 = t41 & y8;

    const u32 t46 = z15 ^ z16;
    const u32 t47 = z10 ^ z11;
    const u32 t48 = z5 ^ z13;
    const u32 t49 = z9 ^ z10;
    const u32 t50 = z2 ^ z12;
    const u32 t51 = z2 ^ z5;
    const u32 t52 = z7 ^ z8;
    const u32 t53 = z0 ^ z3;
    const u32 t54 = z6 ^ z7;
    const u32 t55 = z16 ^ z17;
    const u32 t56 = z12 ^ t48;
    const u32 t57 = t50 ^ t53;
    const u32 t58 = z4 ^ t46;
    const u32 t59 = z3 ^ t54;
    const u32 t60 = t46 ^ t57;
    const u32 t61 = z14 ^ t57;
    const u32 t62 = t52 ^ t58;
    const u32 t63 = t49 ^ t58;
    const u32 t64 = z4 ^ t59;
    const u32 t65 = t61 ^ t62;
    const u32 t66 = z1 ^ t63;
    const u32 s0 = t59 ^ t63;
    const u32 s6 = ~(t56 ^ t62);
    const u32 s7 = ~(t48 ^ t60);
    const u32 t67 = t64 ^ t65;
    const u32 s3 = t53 ^ t66;
    const u32 s4 = t51 ^ t66;
    const u32 s5 = t47 ^ t65;
    const u32 s1 = ~(t64 ^ s3);
    const u32 s2 = ~(t55 ^ t67);
    x[0] = s7, x[1] = s6, x[2] = s5, x[3] = s4, x[4] = s3, x[5] = s2, x[6] = s1, x[7] = s0;
}

// ShiftRows: row r of column c comes from column c + r.
static __device__ __forceinline__ void shift_rows(u32 (*s)[32]) {
#pragma unroll
    for (int bit = 8; bit < 32; bit++) {
        const int row = bit / 8;
        u32 before[4];
#pragma unroll
        for (int c = 0; c < 4; c++) before[c] = s[c][bit];
#pragma unroll
        for (int c = 0; c < 4; c++) s[c][bit] = before[(c + row) % 4];
    }
}

// Bit `bit` of the byte in `row` times x, modulo x^8 + x^4 + x^3 + x + 1.
static __device__ __forceinline__ u32 times_x(const u32 *column, int row, int bit) {
    const u32 below = bit ? column[8 * row + bit - 1] : 0;
    const bool wraps = bit == 0 || bit == 1 || bit == 3 || bit == 4;
    return wraps ? below ^ column[8 * row + 7] : below;
}

// MixColumns of one column: 2 a0 + 3 a1 + a2 + a3 = a0 + (a0 + a1 + a2 + a3) + 2 (a0 + a1).
static __device__ __forceinline__ void mix(u32 *column) {
    u32 sums[32];
#pragma unroll
    for (int i = 0; i < 32; i++) sums[i] = column[i] ^ column[(i + 8) % 32];
#pragma unroll
    for (int i = 0; i < 32; i++) column[i] ^= times_x(sums, i / 8, i % 8) ^ sums[i % 8] ^ sums[16 + i % 8];
}

// `keys` has 128 words a round, each zero or all ones, in the order of the state.
static __device__ __forceinline__ void encrypt_bits(u32 (*s)[32], const u32 *keys, u32 rounds) {
#pragma unroll
    for (int i = 0; i < 128; i++) s[i / 32][i % 32] ^= keys[i];
#pragma unroll 1
    for (u32 round = 1; round <= rounds; round++) {
        keys += 128;
#pragma unroll
        for (int i = 0; i < 16; i++) {
            substitute(s[i / 4] + 8 * (i % 4));
            separate();
        }
        shift_rows(s);
        if (round < rounds) {
#pragma unroll
            for (int c = 0; c < 4; c++) {
                mix(s[c]);
                separate();
            }
        }
#pragma unroll
        for (int i = 0; i < 128; i++) s[i / 32][i % 32] ^= keys[i];
    }
}

// The big-endian numbers `first` + `more` + b * `step` in block b.
static __device__ __forceinline__ void counters(u32 (*s)[32], const u32 *first, u32 more, u32 step) {
    const u32 low = swap_bytes(first[3]);
    // Of which blocks the next word is one more.
    u32 carry = 0;
#pragma unroll
    for (int b = 0; b < 32; b++) {
        const u32 word = low + more + b * step;
        carry |= (word < low) << b;
        s[3][b] = swap_bytes(word);
    }
    transpose(s[3]);
#pragma unroll
    for (int c = 2; c >= 0; c--) {
        const u32 word = first[c], next = swap_bytes(swap_bytes(word) + 1);
#pragma unroll
        for (int k = 0; k < 32; k++) s[c][k] = (-(word >> k & 1) & ~carry) | (-(next >> k & 1) & carry);
        carry = next ? 0 : carry;
    }
}
