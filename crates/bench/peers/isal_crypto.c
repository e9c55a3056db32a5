/* How fast Intel's Storage Acceleration Library for cryptography (ISA-L crypto) hashes on one core.
 *
 *     isal_crypto ALGORITHM BYTES MESSAGES SECONDS
 *
 * submits messages of that many bytes, again and again, for that much CPU time. Prints the library's version, the
 * bytes done, the CPU seconds, and the first message's digest in hexadecimal: message i is BYTES times the byte i.
 */
#include <inttypes.h>
#include <isa-l_crypto/isal_crypto_api.h>
#include <isa-l_crypto/md5_mb.h>
#include <isa-l_crypto/sha1_mb.h>
#include <isa-l_crypto/sha256_mb.h>
#include <isa-l_crypto/sha512_mb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Bytes of a digest at most. */
enum { DIGEST = 64 };

static double cpu_seconds(void)
{
        struct timespec t;
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
        return t.tv_sec + 1e-9 * t.tv_nsec;
}

static void *aligned(size_t size)
{
        void *memory = aligned_alloc(64, (size + 63) / 64 * 64);
        if (memory == NULL) {
                fprintf(stderr, "no memory\n");
                exit(1);
        }
        memset(memory, 0, size);
        return memory;
}

static void check(int error)
{
        if (error) {
                fprintf(stderr, "a call failed with status %d\n", error);
                exit(1);
        }
}

/* Hashes all messages, again and again; returns how often, and puts the first digest's words as they are. */
#define HASHES(NAME, CTX, MGR)                                                                                         \
        static uint64_t NAME(const uint8_t *data, int messages, uint32_t bytes, double seconds, void *digest)          \
        {                                                                                                              \
                MGR *mgr = aligned(sizeof *mgr);                                                                       \
                CTX *ctxs = aligned(messages * sizeof *ctxs), *done;                                                   \
                uint64_t times = 0;                                                                                    \
                check(isal_##NAME##_ctx_mgr_init(mgr));                                                                \
                for (double end = cpu_seconds() + seconds; times == 0 || cpu_seconds() < end; times++) {               \
                        for (int i = 0; i < messages; i++) {                                                           \
                                isal_hash_ctx_init(&ctxs[i]);                                                          \
                                const uint8_t *message = data + (size_t)i * bytes;                                     \
                                check(isal_##NAME##_ctx_mgr_submit(mgr, &ctxs[i], &done, message, bytes,               \
                                                                   ISAL_HASH_ENTIRE));                                 \
                        }                                                                                              \
                        do                                                                                             \
                                check(isal_##NAME##_ctx_mgr_flush(mgr, &done));                                        \
                        while (done != NULL);                                                                          \
                }                                                                                                      \
                memcpy(digest, ctxs[0].job.result_digest, sizeof ctxs[0].job.result_digest);                           \
                return times;                                                                                          \
        }

HASHES(md5, ISAL_MD5_HASH_CTX, ISAL_MD5_HASH_CTX_MGR)
HASHES(sha1, ISAL_SHA1_HASH_CTX, ISAL_SHA1_HASH_CTX_MGR)
HASHES(sha256, ISAL_SHA256_HASH_CTX, ISAL_SHA256_HASH_CTX_MGR)
HASHES(sha512, ISAL_SHA512_HASH_CTX, ISAL_SHA512_HASH_CTX_MGR)

static const struct algorithm {
        const char *name;
        uint64_t (*hash)(const uint8_t *, int, uint32_t, double, void *);
        int size, word; /* of the digest, and of its words, which are numbers but for MD5 */
} algorithms[] = {
        { "md5", md5, 16, 1 },
        { "sha1", sha1, 20, 4 },
        { "sha256", sha256, 32, 4 },
        { "sha512", sha512, 64, 8 },
};

int main(int argc, char **argv)
{
        const struct algorithm *a = NULL;
        for (size_t i = 0; argc == 5 && i < sizeof algorithms / sizeof *algorithms; i++)
                if (strcmp(argv[1], algorithms[i].name) == 0)
                        a = &algorithms[i];
        uint64_t bytes = a ? strtoull(argv[2], NULL, 10) : 0;
        int messages = a ? atoi(argv[3]) : 0;
        double seconds = a ? atof(argv[4]) : 0;
        if (bytes < 1 || bytes > UINT32_MAX || messages < 1 || messages > 65536) {
                fprintf(stderr, "usage: isal_crypto ALGORITHM BYTES MESSAGES SECONDS\n");
                return 2;
        }
        uint8_t *data = aligned((size_t)messages * bytes), digest[DIGEST];
        for (int i = 0; i < messages; i++)
                memset(data + (size_t)i * bytes, i, bytes);

        a->hash(data, messages, bytes, 0, digest);
        double start = cpu_seconds();
        uint64_t times = a->hash(data, messages, bytes, seconds, digest);
        printf("%s %" PRIu64 " %.9f ", isal_crypto_get_version_str(), times * messages * bytes, cpu_seconds() - start);
        for (int i = 0; i < a->size; i++)
                printf("%02x", digest[i / a->word * a->word + a->word - 1 - i % a->word]);
        printf("\n");
        return 0;
}
