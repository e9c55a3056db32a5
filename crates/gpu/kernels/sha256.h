// SHA-256 (FIPS 180-4), the step from one block to the next.
#pragma once
#include "words.h"

struct Sha256 {
    static const int WORDS = 8;
    static const bool BIG_ENDIAN_WORDS = true;

    static __device__ __forceinline__ void begin(u32 *state) {
        state[0] = 0x6a09e667;
        state[1] = 0xbb67ae85;
        state[2] = 0x3c6ef372;
        state[3] = 0xa54ff53a;
        state[4] = 0x510e527f;
        state[5] = 0x9b05688c;
        state[6] = 0x1f83d9ab;
        state[7] = 0x5be0cd19;
    }

    // `w` is used up.
    static __device__ __forceinline__ void compress(u32 *state, u32 *w) {
        constexpr u32 K[64] = {
            0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
            0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
            0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
            0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
            0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
            0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
            0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
            0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
        };
        u32 a = state[0], b = state[1], c = state[2], d = state[3];
        u32 e = state[4], f = state[5], g = state[6], h = state[7];
#pragma unroll
        for (int i = 0; i < 64; i++) {
            if (i >= 16) {
                u32 w15 = w[(i - 15) & 15], w2 = w[(i - 2) & 15];
                u32 small0 = rotate_left(w15, 25) ^ rotate_left(w15, 14) ^ (w15 >> 3);
                u32 small1 = rotate_left(w2, 15) ^ rotate_left(w2, 13) ^ (w2 >> 10);
                w[i & 15] += small0 + w[(i - 7) & 15] + small1;
            }
            u32 big1 = rotate_left(e, 26) ^ rotate_left(e, 21) ^ rotate_left(e, 7);
            u32 big0 = rotate_left(a, 30) ^ rotate_left(a, 19) ^ rotate_left(a, 10);
            u32 choice = (e & f) | (~e & g);
            u32 majority = (a & b) | (a & c) | (b & c);
            u32 sum = (h + w[i & 15] + K[i]) + choice + big1;
            h = g;
            g = f;
            f = e;
            e = d + sum;
            d = c;
            c = b;
            b = a;
            a = sum + (majority + big0);
        }
        state[0] += a;
        state[1] += b;
        state[2] += c;
        state[3] += d;
        state[4] += e;
        state[5] += f;
        state[6] += g;
        state[7] += h;
    }
};
