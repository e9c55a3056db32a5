/*
 * Rates of Crypto++'s MACs and of xxHash on one core, for tabane-bench, which compiles this with -DCRYPTOPP and
 * -DXXHASH where the libraries are, and keeps it running.
 *
 *     macs BLOCK_BYTES DATA_BYTES
 *
 * First prints the libraries' versions, one a line, and an empty line. Then reads lines from standard input, and
 * answers each with one:
 *
 *     ALGORITHM warm|memory SECONDS        BYTES CPU_SECONDS DIGEST
 *
 * A message has BLOCK_BYTES: one again and again ("warm"), or one after the other through DATA_BYTES ("memory").
 * The digest is that of a message of zeros under a key of zeros, with zero as nonce.
 */

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <functional>
#include <map>
#include <memory>
#include <string>

#ifdef CRYPTOPP
#define CRYPTOPP_ENABLE_NAMESPACE_WEAK 1
#include <cryptopp/aes.h>
#include <cryptopp/hmac.h>
#include <cryptopp/md5.h>
#include <cryptopp/sha.h>
#include <cryptopp/siphash.h>
#include <cryptopp/vmac.h>
#endif

#ifdef XXHASH
#include <xxhash.h>
#if defined(__x86_64__) && __has_include(<xxh_x86dispatch.h>)
#include <xxh_x86dispatch.h> /* XXH3 with the widest vectors that the processor has */
#endif
#endif

/* Puts the digest of a message in the last argument. */
using Digest = std::function<void(const uint8_t *, size_t, std::string &)>;

static std::map<std::string, Digest> algorithms;

#ifdef CRYPTOPP
static const uint8_t zeros[32] = {};

template <class Mac> static void add(const char *name, size_t key_bytes)
{
	auto mac = std::make_shared<Mac>(zeros, key_bytes);
	algorithms[name] = [mac](const uint8_t *message, size_t len, std::string &digest) {
		digest.resize(mac->DigestSize());
		mac->CalculateDigest((uint8_t *)&digest[0], message, len);
	};
}

template <int BITS> static void add_vmac(const char *name)
{
	auto mac = std::make_shared<CryptoPP::VMAC<CryptoPP::AES, BITS>>();
	mac->SetKeyWithIV(zeros, 16, zeros, 16);
	algorithms[name] = [mac](const uint8_t *message, size_t len, std::string &digest) {
		digest.resize(BITS / 8);
		mac->Resynchronize(zeros, 16);
		mac->CalculateDigest((uint8_t *)&digest[0], message, len);
	};
}
#endif

static void add_algorithms()
{
#ifdef CRYPTOPP
	add<CryptoPP::HMAC<CryptoPP::Weak::MD5>>("hmac-md5", 32);
	add<CryptoPP::HMAC<CryptoPP::SHA1>>("hmac-sha1", 32);
	add<CryptoPP::HMAC<CryptoPP::SHA256>>("hmac-sha256", 32);
	add<CryptoPP::SipHash<2, 4, false>>("siphash-2-4", 16);
	add_vmac<64>("vmac-64");
	add_vmac<128>("vmac-128");
	printf("Crypto++ %d.%d.%d\n", CRYPTOPP_VERSION / 100, CRYPTOPP_VERSION / 10 % 10, CRYPTOPP_VERSION % 10);
#endif
#ifdef XXHASH
	algorithms["xxh32"] = [](const uint8_t *message, size_t len, std::string &digest) {
		XXH32_canonical_t canonical;
		XXH32_canonicalFromHash(&canonical, XXH32(message, len, 0));
		digest.assign((const char *)&canonical, sizeof canonical);
	};
	algorithms["xxh64"] = [](const uint8_t *message, size_t len, std::string &digest) {
		XXH64_canonical_t canonical;
		XXH64_canonicalFromHash(&canonical, XXH64(message, len, 0));
		digest.assign((const char *)&canonical, sizeof canonical);
	};
	algorithms["xxh3"] = [](const uint8_t *message, size_t len, std::string &digest) {
		XXH64_canonical_t canonical;
		XXH64_canonicalFromHash(&canonical, XXH3_64bits(message, len));
		digest.assign((const char *)&canonical, sizeof canonical);
	};
	algorithms["xxh128"] = [](const uint8_t *message, size_t len, std::string &digest) {
		XXH128_canonical_t canonical;
		XXH128_canonicalFromHash(&canonical, XXH3_128bits(message, len));
		digest.assign((const char *)&canonical, sizeof canonical);
	};
	unsigned version = XXH_versionNumber();
	printf("xxHash %u.%u.%u\n", version / 10000, version / 100 % 100, version % 100);
#endif
	printf("\n");
	fflush(stdout);
}

static double cpu_seconds()
{
	struct timespec t;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return t.tv_sec + 1e-9 * t.tv_nsec;
}

int main(int argc, char **argv)
{
	size_t block = argc == 3 ? strtoull(argv[1], NULL, 10) : 0;
	size_t blocks = block ? strtoull(argv[2], NULL, 10) / block : 0;
	uint8_t *data = blocks ? (uint8_t *)malloc(blocks * block) : NULL;
	if (data == NULL) {
		fprintf(stderr, "usage: macs BLOCK_BYTES DATA_BYTES\n");
		return 2;
	}
	/* Not zeros but for the first message: memory that was never written is one page of zeros. */
	memset(data, 0x5a, blocks * block);
	memset(data, 0, block);
	add_algorithms();

	char name[32], shape[32];
	double seconds;
	size_t next = 0;
	while (scanf("%31s %31s %lf", name, shape, &seconds) == 3) {
		auto found = algorithms.find(name);
		if (found == algorithms.end()) {
			fprintf(stderr, "no algorithm is called %s\n", name);
			return 2;
		}
		const Digest &digest = found->second;
		bool memory = strcmp(shape, "memory") == 0;
		std::string first, any;
		digest(data, block, first);
		double start = cpu_seconds(), elapsed;
		uint64_t done = 0;
		do {
			for (int i = 0; i < 16; i++) {
				if (memory)
					next = (next + 1) % blocks;
				digest(data + (memory ? next * block : 0), block, any);
			}
			done += 16 * block;
			elapsed = cpu_seconds() - start;
		} while (elapsed < seconds);
		printf("%llu %.9f ", (unsigned long long)done, elapsed);
		for (unsigned char byte : first)
			printf("%02x", byte);
		printf("\n");
		fflush(stdout);
	}
	return 0;
}
