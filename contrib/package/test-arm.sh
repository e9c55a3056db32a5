#!/bin/sh
# Compares programs for aarch64, which qemu-user runs, with those of this machine:
#
#   test-arm.sh NATIVE PROGRAM PROVIDER ROOT NO_CRYPTO
#
# NATIVE and PROGRAM are commands, PROVIDER the module for aarch64, ROOT a folder of debian-root.sh with libc6, libssl3
# and openssl for arm64. NO_CRYPTO is the library of crates/lanes/tests/no_crypto.c. Three processors: one with all
# instructions, one without those of SHA-512, one without any of AES and SHA.
set -eu
native=$1 program=$2 provider=$3 root=$4 no_crypto=$5
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
export TABANE_PASSWORD_FILE="$place/password" XDG_CACHE_HOME="$place/caches" XDG_STATE_HOME="$place/state" \
    XDG_CONFIG_HOME="$place/config"
printf 'a password' > "$TABANE_PASSWORD_FILE"
# By the loader's own option, since qemu's -L would put ROOT in the place of "/", which a backup begins with.
libraries=$root/lib/aarch64-linux-gnu:$root/usr/lib/aarch64-linux-gnu
qemu() { qemu-aarch64-static "$root/lib/aarch64-linux-gnu/ld-linux-aarch64.so.1" --library-path "$libraries" "$@"; }
arm() { qemu "$program" "$@"; }

fail() {
    echo "test result: FAILED. $*" >&2
    exit 1
}

same() {
    cmp "$1" "$2" || fail "$3: $1 and $2 differ"
    done=$((done + 1))
}

# Files around the edges of blocks, and one that is cut into several.
tree=$place/tree
mkdir -p "$tree/folder"
for bytes in 0 1 55 56 63 64 65 111 112 119 120 127 128 129 240 241 1023 1024 1025 4096 65537; do
    head -c "$bytes" /dev/urandom > "$tree/$bytes"
done
seq 1 400000 > "$tree/folder/numbers"
ln -s numbers "$tree/folder/link"
algorithms=$("$native" --json sum --list | sed -n 's/.*"algorithm","name":"\([^"]*\)".*"takes_key":false.*/\1/p')
[ -n "$algorithms" ] || fail 'sum --list names no algorithm'
done=0

for processor in max cortex-a53 none; do
    echo "=== aarch64, whole programs: $processor ==="
    case $processor in
    max) has='portable neon armce armsha512' ;;
    cortex-a53) has='portable neon armce' ;;
    none) has='portable neon' ;;
    esac
    if [ "$processor" = none ]; then
        export QEMU_SET_ENV="LD_PRELOAD=$no_crypto"
    else
        export QEMU_CPU="$processor"
    fi

    # Each instruction set can be forced if the processor has it, and is refused by name else.
    arm version | grep -qx "hashing: $has" || fail "the command finds other instructions than $has: $(arm version)"
    for simd in portable neon armce armsha512; do
        case " $has " in
        *" $simd "*)
            TABANE_SIMD=$simd arm version | grep -q "TABANE_SIMD forces $simd" || fail "$simd cannot be forced"
            TABANE_SIMD=$simd arm sum -a md5 "$tree"/[0-9]* > "$place/arm" && "$native" sum -a md5 "$tree"/[0-9]* > "$place/native"
            same "$place/arm" "$place/native" "$processor, $simd, md5"
            ;;
        *)
            ! TABANE_SIMD=$simd arm version > "$place/said" 2>&1 || fail "$simd can be forced"
            grep -q "this processor lacks $simd" "$place/said" || fail "forcing $simd says: $(cat "$place/said")"
            ;;
        esac
        done=$((done + 1))
    done
    for algorithm in $algorithms; do
        arm sum -a "$algorithm" "$tree"/[0-9]* "$tree/folder/numbers" > "$place/arm"
        "$native" sum -a "$algorithm" "$tree"/[0-9]* "$tree/folder/numbers" > "$place/native"
        same "$place/arm" "$place/native" "$processor, sum -a $algorithm"
    done

    # One writes a repository, the other checks it, goes on with it and restores.
    for pair in arm:native native:arm; do
        writer=${pair%:*} reader=${pair#*:}
        [ "$writer" = arm ] || writer=$native
        [ "$reader" = arm ] || reader=$native
        export TABANE_REPOSITORY="$place/$processor-$pair"
        "$writer" -q init
        "$writer" -q backup --host one "$tree"
        "$reader" -q check --read-data
        seq 1 "$done" > "$tree/folder/more"
        "$reader" -q backup --host one "$tree"
        "$writer" -q check
        rm -rf "$place/restored"
        "$reader" -q restore "latest:$tree" --target "$place/restored"
        diff -r --no-dereference "$tree" "$place/restored" || fail "$processor, $pair: not what was backed up"
        done=$((done + 1))
    done

    # openssl with the provider, beside this machine's openssl without it.
    "$native" openssl conf --module "$provider" |
        sed "s:^module = .*:&\nhashes = yes\nreport = $place/report:" > "$place/openssl.cnf"
    rm -f "$place/report"
    : > "$place/report"
    key=00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff
    iv=0f0e0d0c0b0a09080706050403020100
    for file in "$tree"/[0-9]* "$tree/folder/numbers"; do
        for digest in md5 sha1 sha224 sha256 sha384 sha512; do
            OPENSSL_CONF=$place/openssl.cnf qemu "$root/usr/bin/openssl" dgst -r "-$digest" < "$file"
        done > "$place/arm"
        for digest in md5 sha1 sha224 sha256 sha384 sha512; do
            openssl dgst -r "-$digest" < "$file"
        done > "$place/native"
        same "$place/arm" "$place/native" "$processor, digests of $file"
    done
    for file in 1 15 16 17 1024 65537; do
        for cipher in aes-128 aes-192 aes-256; do
            for mode in ecb cbc ctr; do
                bits=${cipher#aes-}
                set -- "-$cipher-$mode" -K "$(echo $key | cut -c "1-$((bits / 4))")"
                [ "$mode" = ecb ] || set -- "$@" -iv "$iv"
                head -c "$file" "$tree/folder/numbers" > "$place/plain"
                OPENSSL_CONF=$place/openssl.cnf qemu "$root/usr/bin/openssl" enc "$@" < "$place/plain" > "$place/arm"
                openssl enc "$@" < "$place/plain" > "$place/native"
                same "$place/arm" "$place/native" "$processor, $cipher-$mode of $file bytes"
                OPENSSL_CONF=$place/openssl.cnf qemu "$root/usr/bin/openssl" enc -d "$@" < "$place/arm" > "$place/back"
                same "$place/plain" "$place/back" "$processor, $cipher-$mode of $file bytes, back"
            done
        done
    done
    grep -q . "$place/report" || fail "$processor: openssl took nothing from the provider"
    [ "$processor" = none ] || grep -q CBC "$place/report" || fail "$processor: openssl took no AES from the provider"
done
echo "test result: ok. $done passed; 0 failed; 0 ignored; aarch64 beside $(uname -m)"
