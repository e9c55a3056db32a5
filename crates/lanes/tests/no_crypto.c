/* Makes an aarch64 processor seem to lack the AES, PMULL, SHA-1, SHA-2, SHA-512 and SHA-3
 * instructions, as that of a Raspberry Pi 4 does: no model of qemu lacks all of them. Loaded before
 * the C library (LD_PRELOAD), which programs ask what the processor has. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <sys/auxv.h>

unsigned long getauxval(unsigned long type) {
    unsigned long (*of_the_library)(unsigned long) =
        (unsigned long (*)(unsigned long))dlsym(RTLD_NEXT, "getauxval");
    unsigned long value = of_the_library(type);
    if (type == AT_HWCAP)
        value &= ~(unsigned long)(HWCAP_AES | HWCAP_PMULL | HWCAP_SHA1 | HWCAP_SHA2 | HWCAP_SHA512 |
                                  HWCAP_SHA3);
    return value;
}
