// SHA-1 (FIPS 180-4), the step from one block to the next.
#pragma once
#include "words.h"

struct Sha1 {
    static const int WORDS = 5;
    static const bool BIG_ENDIAN_WORDS = true;

    static __device__ __forceinline__ void begin(u32 *state) {
        state[0] = 0x67452301;
        state[1] = 0xefcdab89;
        state[2] = 0x98badcfe;
        state[3] = 0x10325476;
        state[4] = 0xc3d2e1f0;
    }

    // `w` is used up.
    static __device__ __forceinline__ void compress(u32 *state, u32 *w) {
        u32 a = state[0], b = state[1], c = state[2], d = state[3], e = state[4];
#pragma unroll
        for (int i = 0; i < 80; i++) {
            if (i >= 16) {
                u32 next = w[(i - 3) & 15] ^ w[(i - 8) & 15] ^ w[(i - 14) & 15] ^ w[i & 15];
                w[i & 15] = rotate_left(next, 1);
            }
            u32 f, k;
            if (i < 20) {
                f = (b & c) | (~b & d);
                k = 0x5a827999;
            } else if (i < 40) {
                f = b ^ c ^ d;
                k = 0x6ed9eba1;
            } else if (i < 60) {
                f = (b & c) | (b & d) | (c & d);
                k = 0x8f1bbcdc;
            } else {
                f = b ^ c ^ d;
                k = 0xca62c1d6;
            }
            // What arrives last, the rotation of the step before, is added last.
            u32 sum = (e + w[i & 15] + k) + f + rotate_left(a, 5);
            e = d;
            d = c;
            c = rotate_left(b, 30);
            b = a;
            a = sum;
        }
        state[0] += a;
        state[1] += b;
        state[2] += c;
        state[3] += d;
        state[4] += e;
    }
};
