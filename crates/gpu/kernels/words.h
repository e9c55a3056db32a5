// Words and what is done with them everywhere.
#pragma once

typedef unsigned char u8;
typedef unsigned int u32;
typedef unsigned long long u64;

// One instruction on a card.
static __device__ __forceinline__ u32 rotate_left(u32 word, u32 bits) { return __funnelshift_l(word, word, bits); }

// The bytes of a word turned around.
static __device__ __forceinline__ u32 swap_bytes(u32 word) { return __byte_perm(word, 0, 0x0123); }
