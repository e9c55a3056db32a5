// The kernels, by name, as the driver starts them.
#pragma once
#include "cuda.h"

#include "../../kernels/aes.cu"
#include "../../kernels/gear.cu"
#include "../../kernels/hash.cu"

#include <cstring>
#include <functional>
#include <utility>

template <class... Arguments, size_t... I>
static std::function<void()> bound(void (*kernel)(Arguments...), void **arguments, std::index_sequence<I...>) {
    // By value now, as a launch takes them.
    std::tuple<Arguments...> copy(*(Arguments *)arguments[I]...);
    return [=] { kernel(std::get<I>(copy)...); };
}

template <class... Arguments>
static std::function<void()> bind_kernel(void (*kernel)(Arguments...), void **arguments) {
    return bound(kernel, arguments, std::index_sequence_for<Arguments...>());
}

struct NamedKernel {
    const char *name;
    std::function<void()> (*bind)(void **arguments);
};

#define NAMED(kernel) {#kernel, [](void **arguments) { return bind_kernel(kernel, arguments); }}
static const NamedKernel KERNELS_BY_NAME[] = {
    NAMED(md5_aligned),     NAMED(md5_anywhere),    NAMED(sha1_aligned), NAMED(sha1_anywhere),   NAMED(sha256_aligned),
    NAMED(sha256_anywhere), NAMED(aes_ecb_encrypt), NAMED(aes_ecb_decrypt), NAMED(aes_ctr),      NAMED(aes_cbc_decrypt),
    NAMED(aes_cbc_encrypt), NAMED(aes_ecb_encrypt_bits), NAMED(aes_ctr_bits), NAMED(gear_below),
};

static const NamedKernel *find_kernel(const char *name) {
    for (const NamedKernel &kernel : KERNELS_BY_NAME) {
        if (!strcmp(kernel.name, name)) return &kernel;
    }
    return nullptr;
}
