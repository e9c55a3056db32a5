// Crypto++'s VMAC on AES-128: reads messages from standard input until it ends, writes their tags to standard output.
//
// A message: key (16 bytes), length of the nonce (1), nonce, length of the message (4, little-endian), message.
// Its tags: VMAC-64 (8 bytes), VMAC-128 (16).

#include <cryptopp/aes.h>
#include <cryptopp/vmac.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

using CryptoPP::AES;
using CryptoPP::VMAC;

static void read_all(unsigned char *to, size_t len)
{
	if (std::fread(to, 1, len, stdin) != len) {
		std::fprintf(stderr, "the input ends within a message\n");
		std::exit(1);
	}
}

template <int BITS> static void tag(const unsigned char *key, const std::vector<unsigned char> &nonce,
				    const std::vector<unsigned char> &message)
{
	VMAC<AES, BITS> vmac;
	unsigned char tag[BITS / 8];
	vmac.SetKeyWithIV(key, 16, nonce.data(), nonce.size());
	vmac.CalculateDigest(tag, message.data(), message.size());
	std::fwrite(tag, 1, sizeof tag, stdout);
}

int main()
{
	unsigned char key[16], nonce_len, len[4];
	while (std::fread(key, 1, 1, stdin) == 1) {
		read_all(key + 1, 15);
		read_all(&nonce_len, 1);
		std::vector<unsigned char> nonce(nonce_len);
		read_all(nonce.data(), nonce.size());
		read_all(len, 4);
		std::vector<unsigned char> message(len[0] | len[1] << 8 | len[2] << 16 | (size_t)len[3] << 24);
		read_all(message.data(), message.size());
		tag<64>(key, nonce, message);
		tag<128>(key, nonce, message);
	}
	return 0;
}
