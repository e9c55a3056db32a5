// Compares the text of the kernels, on the processor, with OpenSSL's libcrypto: every length and mixes of them, each layout, each
// mode. Built with sanitizers. Says how much it compared, or what is wrong.
#include "kernels.h"

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>

typedef std::vector<u8> Bytes;

// Of libcrypto what is needed, so that no header has to be installed.
static struct {
    const void *(*digest)(const char *name);
    int (*hash)(const void *, size_t, u8 *, unsigned *, const void *, void *);
    const void *(*cipher)(const char *name);
    void *(*context)();
    void (*free)(void *);
    int (*begin)(void *, const void *, void *, const u8 *, const u8 *, int);
    int (*padding)(void *, int);
    int (*update)(void *, u8 *, int *, const u8 *, int);
} crypto;

template <class F>
static void symbol(void *library, const char *name, F &function) {
    function = (F)dlsym(library, name);
    if (!function) {
        printf("libcrypto lacks %s\n", name);
        exit(3);
    }
}

static std::mt19937_64 generator(9);
static u32 below(u32 bound) { return (u32)(generator() % bound); }
static Bytes noise(size_t length) {
    Bytes bytes(length);
    for (u8 &byte : bytes) byte = (u8)generator();
    return bytes;
}

static void fail(const std::string &what) {
    printf("wrong: %s\n", what.c_str());
    exit(1);
}

// Memory of exactly this length, so that AddressSanitizer sees what is read beyond it; at a multiple of 16 as on a card.
struct Memory {
    u8 *bytes;
    explicit Memory(size_t length) : bytes((u8 *)aligned_alloc(16, (length + 15) / 16 * 16)) { memset(bytes, 0xa5, (length + 15) / 16 * 16); }
    ~Memory() { free(bytes); }
    Memory(const Memory &) = delete;
};

typedef void HashKernel(const u8 *, const u64 *, u32, u32, const u32 *, const u32 *, u32 *);
struct Hash {
    const char *name;
    HashKernel *aligned, *anywhere;
    u32 words;
    bool big_endian;
};
static const Hash HASHES[] = {
    {"MD5", md5_aligned, md5_anywhere, 4, false},
    {"SHA1", sha1_aligned, sha1_anywhere, 5, true},
    {"SHA256", sha256_aligned, sha256_anywhere, 8, true},
};

static const u32 THREADS = 32;
static size_t compared = 0;

enum Layout { WHOLE, ANYWHERE, GROUPS };

static void check_hashes(const Hash &hash, const std::vector<u32> &lengths, Layout layout, bool in_pieces) {
    const u32 count = (u32)lengths.size();
    std::vector<Bytes> messages;
    size_t room = 0;
    for (u32 length : lengths) {
        messages.push_back(noise(length));
        room += (length + 15) / 16 * 16;
    }
    if (layout == GROUPS) {
        room = 0;
        for (u32 i = 0; i < count; i += GROUP) {
            u32 longest = 0;
            for (u32 k = i; k < count && k < i + GROUP; k++) longest = std::max(longest, lengths[k]);
            room += (longest + 15) / 16 * GROUP * UNIT;
        }
    }
    Memory data(room);
    std::vector<u64> table;
    std::vector<u32> order;
    u64 at = 0, group = 0;
    for (u32 i = 0; i < count; i++) {
        order.push_back(count - 1 - i);
        const u32 length = lengths[i];
        if (layout != GROUPS) {
            table.push_back(at << LENGTH_BITS | length);
            if (length) memcpy(data.bytes + at, messages[i].data(), length);
            at += layout == WHOLE ? (length + 15) / 16 * 16 : length;
            continue;
        }
        const u64 first = group + i % GROUP * UNIT;
        table.push_back(first << LENGTH_BITS | length);
        for (u32 k = 0; k < length; k++) data.bytes[first + k / UNIT * (GROUP * UNIT) + k % UNIT] = messages[i][k];
        u32 longest = 0;
        for (u32 k = i / GROUP * GROUP; k < count && k / GROUP == i / GROUP; k++) longest = std::max(longest, lengths[k]);
        if (i % GROUP == GROUP - 1) group += (longest + 15) / 16 * GROUP * UNIT;
    }
    std::vector<u32> results(count * hash.words, 0xdeadbeef), states;
    if (in_pieces) {
        // Whole blocks, from the state of the empty message.
        const u32 begin[3][8] = {{0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476},
                                 {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0},
                                 {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19}};
        const u32 *state = begin[&hash - HASHES];
        for (u32 i = 0; i < count; i++) states.insert(states.end(), state, state + hash.words);
    }
    HashKernel *kernel = layout == ANYWHERE ? hash.anywhere : hash.aligned;
    run_grid((count + THREADS - 1) / THREADS, THREADS, [&] {
        kernel(data.bytes, table.data(), count, layout == GROUPS ? 0xffffffff : 0, in_pieces ? states.data() : nullptr, order.data(),
               results.data());
    });
    for (u32 i = 0; i < count; i++) {
        Bytes found((u8 *)&results[order[i] * hash.words], (u8 *)&results[order[i] * hash.words] + 4 * hash.words);
        if (in_pieces) {
            // The state is the digest of the blocks when the padding is one more block: so go on from it with that.
            const u32 length = lengths[i] / 64 * 64;
            Memory padding(64);
            memset(padding.bytes, 0, 64);
            padding.bytes[0] = 0x80;
            for (int k = 0; k < 8; k++) padding.bytes[hash.big_endian ? 63 - k : 56 + k] = (u8)((u64)length * 8 >> 8 * k);
            const u64 entry = 64;
            std::vector<u32> state(found.size() / 4), digest(found.size() / 4);
            memcpy(state.data(), found.data(), found.size());
            run_grid(1, 1, [&] { hash.aligned(padding.bytes, &entry, 1, 0, state.data(), nullptr, digest.data()); });
            for (u32 &word : digest) word = hash.big_endian ? swap_bytes(word) : word;
            memcpy(found.data(), digest.data(), found.size());
            messages[i].resize(length);
        }
        u8 expected[64];
        unsigned size = 0;
        crypto.hash(messages[i].data(), messages[i].size(), expected, &size, crypto.digest(hash.name), nullptr);
        if (size != found.size() || memcmp(expected, found.data(), size)) {
            fail(std::string(hash.name) + " of " + std::to_string(lengths[i]) + " bytes, layout " + std::to_string(layout));
        }
        compared++;
    }
}

static Bytes openssl(const std::string &name, bool encrypt, const Bytes &key, const u8 *vector, const Bytes &input) {
    void *context = crypto.context();
    Bytes output(input.size() + 32);
    int length = 0;
    if (!crypto.begin(context, crypto.cipher(name.c_str()), nullptr, key.data(), vector, encrypt)) fail("no " + name);
    crypto.padding(context, 0);
    crypto.update(context, output.data(), &length, input.data(), (int)input.size());
    crypto.free(context);
    output.resize(length);
    return output;
}

static u8 times_x(u8 byte) { return (u8)(byte << 1 ^ (byte & 0x80 ? 0x1b : 0)); }
static u8 multiply(u8 a, u8 b) {
    u8 product = 0;
    for (; b; b >>= 1, a = times_x(a)) product ^= b & 1 ? a : 0;
    return product;
}

// What the host hands over: tables and round keys, by the definition.
struct AesTables {
    u8 box[256], inverse_box[256];
    u32 encrypt[256], decrypt[256], inverse[64];
    AesTables() {
        for (int i = 0; i < 256; i++) {
            u8 inverted = 0;
            for (int k = 0; k < 256; k++) inverted = multiply((u8)i, (u8)k) == 1 ? (u8)k : inverted;
            u8 result = 0x63;
            for (int k = 0; k < 5; k++) result ^= (u8)(inverted << k | inverted >> (8 - k));
            box[i] = result;
            inverse_box[result] = (u8)i;
        }
        for (int i = 0; i < 256; i++) {
            const u8 s = box[i], t = inverse_box[i];
            encrypt[i] = multiply(s, 2) | s << 8 | s << 16 | (u32)multiply(s, 3) << 24;
            decrypt[i] = multiply(t, 14) | multiply(t, 9) << 8 | multiply(t, 13) << 16 | (u32)multiply(t, 11) << 24;
        }
        memcpy(inverse, inverse_box, 256);
    }
};

static std::vector<u32> expand(const AesTables &tables, const Bytes &key, bool decrypt) {
    const u32 words = (u32)key.size() / 4, rounds = words + 6;
    std::vector<u32> w(4 * (rounds + 1));
    memcpy(w.data(), key.data(), key.size());
    u8 constant = 1;
    auto substitute = [&](u32 x) {
        return (u32)(tables.box[x & 255] | tables.box[x >> 8 & 255] << 8 | tables.box[x >> 16 & 255] << 16) | (u32)tables.box[x >> 24] << 24;
    };
    for (u32 i = words; i < w.size(); i++) {
        u32 t = w[i - 1];
        if (i % words == 0) {
            t = substitute(rotate_left(t, 24)) ^ constant;
            constant = times_x(constant);
        } else if (words == 8 && i % 8 == 4) {
            t = substitute(t);
        }
        w[i] = w[i - words] ^ t;
    }
    if (!decrypt) return w;
    std::vector<u32> inverse(w.size());
    for (u32 round = 0; round <= rounds; round++) {
        for (u32 c = 0; c < 4; c++) {
            u32 word = w[4 * (rounds - round) + c];
            if (round && round < rounds) {
                u32 mixed = 0;
                for (u32 r = 0; r < 4; r++) mixed ^= rotate_left(tables.decrypt[tables.box[word >> 8 * r & 255]], 8 * r);
                word = mixed;
            }
            inverse[4 * round + c] = word;
        }
    }
    return inverse;
}

struct AesMode {
    const char *name, *openssl;
    bool encrypt, any_length, chained;
};
static const AesMode MODES[] = {
    {"aes_ecb_encrypt", "ECB", true, false, false}, {"aes_ecb_decrypt", "ECB", false, false, false},
    {"aes_ctr", "CTR", true, true, false},          {"aes_cbc_decrypt", "CBC", false, false, false},
    {"aes_cbc_encrypt", "CBC", true, false, true},  {"aes_ecb_encrypt_bits", "ECB", true, false, false},
    {"aes_ctr_bits", "CTR", true, true, false},
};

static void check_aes(const AesTables &tables, const AesMode &mode, u32 key_bits, const std::vector<u32> &lengths, u32 lanes) {
    const Bytes key = noise(key_bits / 8);
    const u32 rounds = key_bits / 32 + 6;
    const std::vector<u32> keys = expand(tables, key, !mode.encrypt);
    std::vector<Item> items;
    std::vector<Bytes> messages;
    u64 at = 0;
    for (u32 length : lengths) {
        Item item = {at, mode.any_length ? length : length / 16 * 16, 0, {0, 0, 0, 0}};
        messages.push_back(noise(item.bytes));
        const Bytes vector = noise(16);
        memcpy(item.vector, vector.data(), 16);
        // A counter that carries into all its words.
        if (items.size() % 3 == 1) memset(item.vector, 0xff, 15);
        items.push_back(item);
        at += (item.bytes + 15) / 16 * 16;
    }
    Memory from(at), to(at);
    for (size_t i = 0; i < items.size(); i++) {
        if (items[i].bytes) memcpy(from.bytes + items[i].offset, messages[i].data(), items[i].bytes);
    }
    const u32 *columns = mode.encrypt ? tables.encrypt : tables.decrypt, *inverse = mode.encrypt ? nullptr : tables.inverse;
    const u32 *round_keys = keys.data(), count = (u32)items.size();
    const Item *list = items.data();
    const u8 *source = from.bytes;
    u8 *target = to.bytes;
    const bool bits = strstr(mode.name, "_bits");
    void *by_tables[] = {&columns, &inverse, &round_keys, (void *)&rounds, &list, (void *)&count, &lanes, &source, &target};
    void *by_bits[] = {&round_keys, (void *)&rounds, &list, (void *)&count, &lanes, &source, &target};
    void *chained[] = {&columns, &round_keys, (void *)&rounds, &list, (void *)&count, &source, &target};
    run_grid(mode.chained ? (count + THREADS - 1) / THREADS : 2, THREADS,
             find_kernel(mode.name)->bind(mode.chained ? chained : bits ? by_bits : by_tables));
    for (size_t i = 0; i < items.size(); i++) {
        const std::string name = "AES-" + std::to_string(key_bits) + "-" + mode.openssl;
        const Bytes expected = openssl(name, mode.encrypt, key, (const u8 *)items[i].vector, messages[i]);
        if (memcmp(expected.data(), target + items[i].offset, items[i].bytes)) {
            fail(std::string(mode.name) + " of " + std::to_string(items[i].bytes) + " bytes, " + std::to_string(lanes) + " lanes");
        }
        // Nothing behind it was touched.
        for (u64 k = items[i].offset + items[i].bytes; k % 16; k++) {
            if (target[k] != 0xa5) fail(std::string(mode.name) + " writes too far");
        }
        compared++;
    }
}

// Against the definition, with limits that many positions are below, and room for some of them.
static void check_gear(u32 length, u32 lax, u32 room) {
    const u32 strict = lax / 16;
    std::vector<u32> table(256);
    for (u32 &number : table) number = (u32)generator();
    Memory data(length);
    const Bytes bytes = noise(length);
    if (length) memcpy(data.bytes, bytes.data(), length);
    // Bytes that are all the same have one hash.
    for (u32 i = length / 3; i < length / 2; i++) data.bytes[i] = 7;
    std::vector<Below> expected, found(room, Below{0xdeadbeef, 0, 0});
    for (u32 number = 1; number * WINDOW < length; number++) {
        Below below = {number, 0, 0};
        for (u32 i = 0; i < 32 && number * WINDOW + i < length; i++) {
            u32 hash = 0;
            for (u32 k = 0; k < WINDOW; k++) hash += table[data.bytes[number * WINDOW + i - k]] << k;
            below.lax |= (u32)(hash < lax) << i;
            below.strict |= (u32)(hash < strict) << i;
        }
        if (below.lax) expected.push_back(below);
    }
    u32 count = 0;
    const u8 *from = data.bytes;
    const u32 *numbers = table.data();
    u32 *counted = &count;
    Below *to = found.data();
    void *arguments[] = {&from, &length, &numbers, (void *)&strict, &lax, &room, &counted, &to};
    run_grid(length / (THREADS * STRETCH) + 1, THREADS, find_kernel("gear_below")->bind(arguments));
    if (count != expected.size()) fail("gear counts " + std::to_string(count) + " of " + std::to_string(expected.size()));
    for (u32 i = 0; i < count && i < room; i++) {
        bool there = false;
        for (const Below &below : expected) there |= !memcmp(&below, &found[i], sizeof below);
        if (!there) fail("gear of " + std::to_string(length) + " bytes, at " + std::to_string(found[i].number));
        compared++;
    }
}

int main() {
    void *library = dlopen("libcrypto.so.3", RTLD_NOW);
    if (!library) {
        printf("no libcrypto.so.3\n");
        return 3;
    }
    symbol(library, "EVP_get_digestbyname", crypto.digest);
    symbol(library, "EVP_Digest", crypto.hash);
    symbol(library, "EVP_get_cipherbyname", crypto.cipher);
    symbol(library, "EVP_CIPHER_CTX_new", crypto.context);
    symbol(library, "EVP_CIPHER_CTX_free", crypto.free);
    symbol(library, "EVP_CipherInit_ex", crypto.begin);
    symbol(library, "EVP_CIPHER_CTX_set_padding", crypto.padding);
    symbol(library, "EVP_CipherUpdate", crypto.update);

    std::vector<u32> all, ones(3000, 1), mixed;
    for (u32 length = 0; length <= 300; length++) all.push_back(length);
    for (u32 i = 0; i < 100; i++) mixed.push_back(below(i % 10 ? 200 : 20000));
    for (const Hash &hash : HASHES) {
        for (Layout layout : {WHOLE, ANYWHERE, GROUPS}) {
            check_hashes(hash, all, layout, false);
            check_hashes(hash, mixed, layout, false);
            check_hashes(hash, ones, layout, false);
            check_hashes(hash, {}, layout, false);
        }
        std::vector<u32> pieces(mixed.begin(), mixed.begin() + 20);
        for (u32 length : {0, 63, 64, 65, 128}) pieces.push_back(length);
        check_hashes(hash, pieces, WHOLE, true);
        check_hashes(hash, pieces, ANYWHERE, true);
    }
    for (u32 length : {0, 31, 32, 33, 48, 63, 64, 65, 543, 544, 545, 16416, 16417, 40001}) {
        check_gear(length, 1u << 30, 4000);
        check_gear(length, 1u << 24, 10);
    }
    static const AesTables tables;
    for (u32 bits : {128, 256}) {
        for (const AesMode &mode : MODES) {
            std::vector<u32> short_ones, few = {16, 15, 1, 0, 512, 513, 527, 528, 16400, 20000};
            for (u32 length = 0; length <= 130; length++) short_ones.push_back(length);
            check_aes(tables, mode, bits, short_ones, 1);
            check_aes(tables, mode, bits, few, 4);
            check_aes(tables, mode, bits, few, 32);
            check_aes(tables, mode, bits, {0}, 32);
        }
    }
    printf("compared %zu\n", compared);
}
