/* Hashes many independent messages at once, one message a SIMD lane.
 *
 * Two ways, both synchronous, without threads or global state:
 *
 *   - whole messages: tabane_hash_many;
 *   - messages in pieces: hashers, each of which is a message of which a part has come, are appended to together with
 *     tabane_update_many, as a server does with what has come from many clients.
 *
 * Nothing is kept of what a call is given: its buffers are the caller's again when it returns. Any thread may call
 * anything, but a hasher must not be used by two threads at once unless both only read (tabane_finish_many,
 * tabane_hasher_clone). Any number of messages of any lengths, unaligned, empty or beyond 4 GiB, may go into a call;
 * sixteen or more of like length fill the lanes.
 *
 * Link with -ltabane. The environment variable TABANE_SIMD forces an instruction set: see the Rust documentation.
 */
#ifndef TABANE_H
#define TABANE_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The algorithms. MD5 and SHA-1 are broken: they guard against accidents, not against people. */
#define TABANE_MD5 1
#define TABANE_SHA1 2
#define TABANE_SHA224 3
#define TABANE_SHA256 4
#define TABANE_SHA384 5
#define TABANE_SHA512 6

/* The most bytes that a digest has. */
#define TABANE_DIGEST_MAX 64

/* What functions return. */
#define TABANE_OK 0
/* An argument is wrong: an unknown algorithm, a null pointer, or one hasher twice. Nothing was done. */
#define TABANE_INVALID (-1)
/* TABANE_SIMD names no instruction set that this processor has. Nothing was done. */
#define TABANE_NO_BACKEND (-2)
/* A fault in the library. Hashers that were being appended to are lost: free them. */
#define TABANE_FAULT (-3)

/* Bytes in a digest of an algorithm, or 0 for an unknown one. */
size_t tabane_digest_length(int algorithm);

/* Hashes messages[i], lengths[i] bytes long, for each i < count. The digests come one behind the other:
 * tabane_digest_length(algorithm) * count bytes. A message of length 0 may be null. */
int tabane_hash_many(int algorithm, const void *const *messages, const size_t *lengths, size_t count,
                     unsigned char *digests);

/* A message of which a part has come. */
typedef struct tabane_hasher tabane_hasher;

/* An empty message. Null for an unknown algorithm or if TABANE_SIMD is wrong. */
tabane_hasher *tabane_hasher_new(int algorithm);

/* A copy, which goes on by itself. Null for null. */
tabane_hasher *tabane_hasher_clone(const tabane_hasher *hasher);

/* Frees a hasher. Null is allowed. */
void tabane_hasher_free(tabane_hasher *hasher);

/* Appends data[i], lengths[i] bytes long, to hashers[i] for each i < count. Algorithms and lengths may differ. No
 * hasher may come twice. */
int tabane_update_many(tabane_hasher *const *hashers, const void *const *data, const size_t *lengths, size_t count);

/* Writes the digest of what has come to hashers[i] to digests[i] for each i < count: TABANE_DIGEST_MAX bytes apart, the
 * rest of each zero. More may be appended afterwards. */
int tabane_finish_many(const tabane_hasher *const *hashers, size_t count, unsigned char (*digests)[TABANE_DIGEST_MAX]);

#ifdef __cplusplus
}
#endif

#endif
