/* Uses everything in tabane.h. Prints nothing and returns 0 if all is as it should be. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tabane.h"

#define CHECK(condition)                                                     \
    do {                                                                     \
        if (!(condition)) {                                                  \
            fprintf(stderr, "line %d: %s does not hold\n", __LINE__, #condition); \
            return 1;                                                        \
        }                                                                    \
    } while (0)

static int is(const unsigned char *digest, size_t length, const char *hex)
{
    char text[2 * TABANE_DIGEST_MAX + 1] = "";
    for (size_t i = 0; i < length; i++)
        sprintf(text + 2 * i, "%02x", digest[i]);
    return strcmp(text, hex) == 0;
}

int main(void)
{
    const struct {
        int algorithm;
        size_t length;
        const char *abc;
    } known[] = {
        {TABANE_MD5, 16, "900150983cd24fb0d6963f7d28e17f72"},
        {TABANE_SHA1, 20, "a9993e364706816aba3e25717850c26c9cd0d89d"},
        {TABANE_SHA224, 28, "23097d223405d8228642a477bda255b32aadbce4bda0b3f7e36c9da7"},
        {TABANE_SHA256, 32, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
        {TABANE_SHA384, 48,
         "cb00753f45a35e8bb5a03d699ac65007272c32ab0eded1631a8b605a43ff5bed8086072ba1e7cc2358baeca134c825a7"},
        {TABANE_SHA512, 64,
         "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a"
         "2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f"},
    };
    enum { KNOWN = sizeof known / sizeof *known, MANY = 40 };

    /* Whole messages, more than there are lanes; an empty one may be null. */
    const void *messages[MANY];
    size_t lengths[MANY];
    for (size_t i = 0; i < MANY; i++) {
        messages[i] = i == 7 ? NULL : "abc";
        lengths[i] = i == 7 ? 0 : 3;
    }
    for (size_t k = 0; k < KNOWN; k++) {
        unsigned char digests[MANY * TABANE_DIGEST_MAX];
        size_t length = tabane_digest_length(known[k].algorithm);
        CHECK(length == known[k].length);
        CHECK(tabane_hash_many(known[k].algorithm, messages, lengths, MANY, digests) == TABANE_OK);
        for (size_t i = 0; i < MANY; i++)
            CHECK(is(digests + i * length, length, known[k].abc) == (i != 7));
        if (known[k].algorithm == TABANE_MD5)
            CHECK(is(digests + 7 * length, length, "d41d8cd98f00b204e9800998ecf8427e"));
    }

    /* Messages in pieces, each of another algorithm; a copy goes on by itself. */
    tabane_hasher *hashers[KNOWN];
    const void *first[KNOWN], *rest[KNOWN];
    size_t one[KNOWN], two[KNOWN];
    for (size_t k = 0; k < KNOWN; k++) {
        CHECK((hashers[k] = tabane_hasher_new(known[k].algorithm)) != NULL);
        first[k] = "a", one[k] = 1, rest[k] = "bc", two[k] = 2;
    }
    CHECK(tabane_update_many(hashers, first, one, KNOWN) == TABANE_OK);
    tabane_hasher *copy = tabane_hasher_clone(hashers[0]);
    CHECK(tabane_update_many(hashers, rest, two, KNOWN) == TABANE_OK);
    unsigned char digests[KNOWN][TABANE_DIGEST_MAX];
    CHECK(tabane_finish_many((const tabane_hasher *const *)hashers, KNOWN, digests) == TABANE_OK);
    for (size_t k = 0; k < KNOWN; k++)
        CHECK(is(digests[k], known[k].length, known[k].abc));
    CHECK(tabane_finish_many((const tabane_hasher *const *)&copy, 1, digests) == TABANE_OK);
    CHECK(is(digests[0], 16, "0cc175b9c0f1b6a831c399e269772661"));

    /* What is wrong is said to be, and does nothing. */
    tabane_hasher *twice[] = {copy, copy};
    CHECK(tabane_update_many(twice, first, one, 2) == TABANE_INVALID);
    twice[1] = NULL;
    CHECK(tabane_update_many(twice, first, one, 2) == TABANE_INVALID);
    CHECK(tabane_finish_many((const tabane_hasher *const *)twice, 2, digests) == TABANE_INVALID);
    CHECK(tabane_finish_many((const tabane_hasher *const *)&copy, 1, NULL) == TABANE_INVALID);
    CHECK(tabane_hash_many(99, messages, lengths, 1, digests[0]) == TABANE_INVALID);
    CHECK(tabane_hash_many(TABANE_MD5, NULL, lengths, 1, digests[0]) == TABANE_INVALID);
    CHECK(tabane_hash_many(TABANE_MD5, messages, lengths, 1, NULL) == TABANE_INVALID);
    CHECK(tabane_hash_many(TABANE_MD5, NULL, NULL, 0, NULL) == TABANE_OK);
    CHECK(tabane_digest_length(0) == 0 && tabane_hasher_new(0) == NULL && tabane_hasher_clone(NULL) == NULL);
    CHECK(tabane_finish_many((const tabane_hasher *const *)&copy, 1, digests) == TABANE_OK);
    CHECK(is(digests[0], 16, "0cc175b9c0f1b6a831c399e269772661"));

    tabane_hasher_free(copy);
    tabane_hasher_free(NULL);
    for (size_t k = 0; k < KNOWN; k++)
        tabane_hasher_free(hashers[k]);
    return 0;
}
