/* How fast Intel's Multi-Buffer Crypto for IPsec (libipsec-mb) works on one core.
 *
 *     ipsec_mb ALGORITHM BYTES MESSAGES SECONDS
 *
 * submits messages of that many bytes, again and again, for that much CPU time. Prints the library's version, the
 * bytes done, the CPU seconds, and the first message's digest or the first 16 bytes of its ciphertext in
 * hexadecimal: message i is BYTES times the byte i, keys and initialisation vectors are zeros.
 */
#include <intel-ipsec-mb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* The library wants lengths below 2^16. */
enum { APART = 65536, MOST = 65534, TAG = 64 };

struct algorithm {
        const char *name;
        IMB_HASH_ALG hash;
        IMB_CIPHER_MODE cipher;
        IMB_CIPHER_DIRECTION direction;
        unsigned size; /* of the tag or the key */
};

static const struct algorithm algorithms[] = {
        { "sha1", IMB_AUTH_SHA_1, IMB_CIPHER_NULL, IMB_DIR_ENCRYPT, 20 },
        { "sha256", IMB_AUTH_SHA_256, IMB_CIPHER_NULL, IMB_DIR_ENCRYPT, 32 },
        { "sha512", IMB_AUTH_SHA_512, IMB_CIPHER_NULL, IMB_DIR_ENCRYPT, 64 },
        { "hmac-md5", IMB_AUTH_MD5, IMB_CIPHER_NULL, IMB_DIR_ENCRYPT, 16 },
        { "hmac-sha1", IMB_AUTH_HMAC_SHA_1, IMB_CIPHER_NULL, IMB_DIR_ENCRYPT, 20 },
        { "hmac-sha256", IMB_AUTH_HMAC_SHA_256, IMB_CIPHER_NULL, IMB_DIR_ENCRYPT, 32 },
        { "hmac-sha512", IMB_AUTH_HMAC_SHA_512, IMB_CIPHER_NULL, IMB_DIR_ENCRYPT, 64 },
        { "aes-128-cbc-encrypt", IMB_AUTH_NULL, IMB_CIPHER_CBC, IMB_DIR_ENCRYPT, 16 },
        { "aes-192-cbc-encrypt", IMB_AUTH_NULL, IMB_CIPHER_CBC, IMB_DIR_ENCRYPT, 24 },
        { "aes-256-cbc-encrypt", IMB_AUTH_NULL, IMB_CIPHER_CBC, IMB_DIR_ENCRYPT, 32 },
        { "aes-128-cbc-decrypt", IMB_AUTH_NULL, IMB_CIPHER_CBC, IMB_DIR_DECRYPT, 16 },
        { "aes-128-ctr", IMB_AUTH_NULL, IMB_CIPHER_CNTR, IMB_DIR_ENCRYPT, 16 },
        { "aes-128-ecb", IMB_AUTH_NULL, IMB_CIPHER_ECB, IMB_DIR_ENCRYPT, 16 },
};

/* Round keys, and the states after the padded key of an HMAC. */
static uint32_t encrypt_keys[4 * 15] __attribute__((aligned(64)));
static uint32_t decrypt_keys[4 * 15] __attribute__((aligned(64)));
static uint8_t inner[64] __attribute__((aligned(64))), outer[64] __attribute__((aligned(64)));
static const uint8_t zeros[64];

static void prepare(IMB_MGR *mgr, const struct algorithm *a)
{
        uint8_t pad[128];
        void (*expand)(const void *, void *, void *) = a->size == 16   ? mgr->keyexp_128
                                                       : a->size == 24 ? mgr->keyexp_192
                                                                       : mgr->keyexp_256;
        if (a->cipher != IMB_CIPHER_NULL)
                expand(zeros, encrypt_keys, decrypt_keys);
        for (int i = 0; i < 2; i++) {
                uint8_t *state = i ? outer : inner;
                memset(pad, i ? 0x5c : 0x36, sizeof pad);
                if (a->hash == IMB_AUTH_MD5)
                        IMB_MD5_ONE_BLOCK(mgr, pad, state);
                else if (a->hash == IMB_AUTH_HMAC_SHA_1)
                        IMB_SHA1_ONE_BLOCK(mgr, pad, state);
                else if (a->hash == IMB_AUTH_HMAC_SHA_256)
                        IMB_SHA256_ONE_BLOCK(mgr, pad, state);
                else if (a->hash == IMB_AUTH_HMAC_SHA_512)
                        IMB_SHA512_ONE_BLOCK(mgr, pad, state);
        }
}

static void fill(IMB_JOB *job, const struct algorithm *a, uint8_t *message, uint8_t *tag, uint64_t bytes)
{
        memset(job, 0, sizeof *job);
        job->src = message;
        job->cipher_mode = a->cipher;
        job->cipher_direction = a->direction;
        job->hash_alg = a->hash;
        if (a->cipher != IMB_CIPHER_NULL) {
                job->chain_order = a->direction == IMB_DIR_ENCRYPT ? IMB_ORDER_CIPHER_HASH : IMB_ORDER_HASH_CIPHER;
                job->dst = message;
                job->enc_keys = encrypt_keys;
                job->dec_keys = decrypt_keys;
                job->key_len_in_bytes = a->size;
                job->iv = zeros;
                job->iv_len_in_bytes = a->cipher == IMB_CIPHER_ECB ? 0 : 16;
                job->msg_len_to_cipher_in_bytes = bytes;
        } else {
                job->chain_order = IMB_ORDER_HASH_CIPHER;
                job->msg_len_to_hash_in_bytes = bytes;
                job->auth_tag_output = tag;
                job->auth_tag_output_len_in_bytes = a->size;
                job->u.HMAC._hashed_auth_key_xor_ipad = inner;
                job->u.HMAC._hashed_auth_key_xor_opad = outer;
        }
}

static double cpu_seconds(void)
{
        struct timespec t;
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
        return t.tv_sec + 1e-9 * t.tv_nsec;
}

/* Submits each message once and takes back what has been finished; waits for the rest if asked to. */
static void submit_all(IMB_MGR *mgr, const struct algorithm *a, uint8_t *data, uint8_t *tags, int messages,
                       uint64_t bytes, int wait)
{
        for (int i = 0; i < messages; i++) {
                fill(IMB_GET_NEXT_JOB(mgr), a, data + (size_t)i * APART, tags + TAG * i, bytes);
                IMB_JOB *job = IMB_SUBMIT_JOB_NOCHECK(mgr);
                while (job != NULL) {
                        if (job->status != IMB_STATUS_COMPLETED) {
                                fprintf(stderr, "a job failed with status %d\n", job->status);
                                exit(1);
                        }
                        job = IMB_GET_COMPLETED_JOB(mgr);
                }
        }
        while (wait && IMB_FLUSH_JOB(mgr) != NULL)
                ;
}

int main(int argc, char **argv)
{
        const struct algorithm *a = NULL;
        for (size_t i = 0; argc == 5 && i < sizeof algorithms / sizeof *algorithms; i++)
                if (strcmp(argv[1], algorithms[i].name) == 0)
                        a = &algorithms[i];
        uint64_t bytes = a ? strtoull(argv[2], NULL, 10) : 0;
        int messages = a ? atoi(argv[3]) : 0;
        double seconds = a ? atof(argv[4]) : 0;
        if (bytes < 16 || bytes > MOST || messages < 1 || messages > 65536) {
                fprintf(stderr, "usage: ipsec_mb ALGORITHM BYTES MESSAGES SECONDS\n");
                return 2;
        }
        IMB_MGR *mgr = alloc_mb_mgr(0);
        uint8_t *data = aligned_alloc(64, (size_t)messages * APART);
        uint8_t *tags = malloc((size_t)messages * TAG);
        if (mgr == NULL || data == NULL || tags == NULL) {
                fprintf(stderr, "no memory\n");
                return 1;
        }
        init_mb_mgr_auto(mgr, NULL);
        prepare(mgr, a);
        for (int i = 0; i < messages; i++)
                memset(data + (size_t)i * APART, i, bytes);

        submit_all(mgr, a, data, tags, messages, bytes, 1);
        const uint8_t *first = a->cipher == IMB_CIPHER_NULL ? tags : data;
        int shown = a->cipher == IMB_CIPHER_NULL ? (int)a->size : 16;
        char hex[2 * TAG + 1];
        for (int i = 0; i < shown; i++)
                sprintf(hex + 2 * i, "%02x", first[i]);

        double start = cpu_seconds(), elapsed;
        uint64_t done = 0;
        do {
                submit_all(mgr, a, data, tags, messages, bytes, 0);
                done += bytes * messages;
                elapsed = cpu_seconds() - start;
        } while (elapsed < seconds);
        printf("%s %llu %.9f %s\n", imb_get_version_str(), (unsigned long long)done, elapsed, hex);
        return 0;
}
