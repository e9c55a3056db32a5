// What the kernels use of CUDA C++, on the processor: a thread for each CUDA thread of a block, one block after the other. With it
// the text of the kernels is tested where there is no card, under the sanitizers too.
#pragma once
#include <pthread.h>

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <thread>
#include <tuple>
#include <vector>

#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(threads)
// One block at a time, so one of each.
#define __shared__ static

struct uint3 {
    unsigned x, y, z;
};
struct alignas(16) uint4 {
    unsigned x, y, z, w;
};

static thread_local uint3 threadIdx, blockIdx;
static uint3 blockDim, gridDim;
static pthread_barrier_t block_barrier;

static inline void __syncthreads() { pthread_barrier_wait(&block_barrier); }
static inline unsigned __activemask() { return ~0u; }
static inline void __syncwarp(unsigned) {}

static inline unsigned atomicAdd(unsigned *to, unsigned more) { return __atomic_fetch_add(to, more, __ATOMIC_RELAXED); }

static inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned bits) {
    return (unsigned)(((uint64_t)high << 32 | low) << (bits & 31) >> 32);
}
static inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned bits) {
    return (unsigned)(((uint64_t)high << 32 | low) >> (bits & 31));
}
static inline unsigned __byte_perm(unsigned low, unsigned high, unsigned selector) {
    const uint64_t both = (uint64_t)high << 32 | low;
    unsigned result = 0;
    for (int i = 0; i < 4; i++) result |= (unsigned)(both >> 8 * (selector >> 4 * i & 7) & 0xff) << 8 * i;
    return result;
}

// Runs a grid. Several at a time take turns.
template <class Kernel>
static void run_grid(unsigned blocks, unsigned threads, Kernel kernel) {
    static std::mutex turn;
    const std::lock_guard<std::mutex> lock(turn);
    blockDim = {threads, 1, 1};
    gridDim = {blocks, 1, 1};
    pthread_barrier_init(&block_barrier, nullptr, threads);
    std::vector<std::thread> running;
    for (unsigned thread = 0; thread < threads; thread++) {
        running.emplace_back([=] {
            threadIdx = {thread, 0, 0};
            for (unsigned block = 0; block < blocks; block++) {
                blockIdx = {block, 0, 0};
                kernel();
                // The next block has the same shared memory.
                __syncthreads();
            }
        });
    }
    for (std::thread &thread : running) thread.join();
    pthread_barrier_destroy(&block_barrier);
}
