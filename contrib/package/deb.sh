#!/bin/sh
# Makes Debian packages of what build.sh has laid out: deb.sh x86_64|aarch64 FOLDER VERSION OUTPUT
#
#   tabane          the command, manual pages, completions, units, and the provider where OpenSSL looks for it
#   libtabane0      the shared library
#   libtabane-dev   header, static library, pkg-config
#
# Needs dpkg-deb. SOURCE_DATE_EPOCH is the time of all files.
set -eu
processor=$1 folder=$2 version=$3 output=$4
case $processor in x86_64) architecture=amd64 ;; aarch64) architecture=arm64 ;; esac
here=$(cd "$(dirname "$0")" && pwd)
multiarch=lib/$processor-linux-gnu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
umask 022

# package NAME SECTION DEPENDS SUMMARY: makes the package NAME of the folder "$work/NAME".
package() {
    root=$work/$1
    mkdir -p "$root/DEBIAN" "$root/usr/share/doc/$1"
    cp "$here/copyright" "$root/usr/share/doc/$1"
    gzip -9nc "$folder/share/doc/tabane/CHANGELOG.md" > "$root/usr/share/doc/$1/CHANGELOG.md.gz"
    cat > "$root/DEBIAN/control" << END
Package: $1
Version: $version
Architecture: $architecture
Section: $2
Priority: optional
Maintainer: The Tabane authors <tabane@users.noreply.github.com>
Homepage: https://github.com/tabane/tabane
Installed-Size: $(du -ks --apparent-size --exclude DEBIAN "$root" | cut -f 1)
$3
Description: $4
END
    (cd "$root" && find usr -type f -print0 | sort -z | xargs -0 md5sum) > "$root/DEBIAN/md5sums"
    find "$root" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
    dpkg-deb --build --root-owner-group -Zxz "$root" "$output/$1_${version}_$architecture.deb" > /dev/null
}

root=$work/tabane
mkdir -p "$root/usr/bin" "$root/usr/lib/systemd/system" "$root/usr/lib/tabane" \
    "$root/usr/$multiarch/ossl-modules" "$root/usr/share/man/man1" "$root/usr/share/zsh" "$root/usr/share/doc/tabane" \
    "$root/DEBIAN"
cp "$folder/bin/tabane" "$root/usr/bin"
cp "$folder/lib/tabane/tabane.so" "$root/usr/$multiarch/ossl-modules"
chmod 644 "$root/usr/$multiarch/ossl-modules/tabane.so"
ln -s "../${multiarch#lib/}/ossl-modules/tabane.so" "$root/usr/lib/tabane/tabane.so"
for unit in "$folder"/lib/systemd/system/*; do
    sed 's:/usr/local/bin/tabane:/usr/bin/tabane:' "$unit" > "$root/usr/lib/systemd/system/${unit##*/}"
done
for page in "$folder"/share/man/man1/*.1; do
    gzip -9nc "$page" > "$root/usr/share/man/man1/${page##*/}.gz"
done
cp -R "$folder/share/bash-completion" "$folder/share/fish" "$root/usr/share"
cp -R "$folder/share/zsh/site-functions" "$root/usr/share/zsh/vendor-completions"
cp -R "$folder/share/doc/tabane/README.md" "$folder/share/doc/tabane/SECURITY.md" \
    "$folder/share/doc/tabane/examples" "$root/usr/share/doc/tabane"
install -m 755 "$here/after-install.sh" "$root/DEBIAN/postinst"
install -m 755 "$here/before-removal.sh" "$root/DEBIAN/prerm"
install -m 755 "$here/after-removal.sh" "$root/DEBIAN/postrm"
package tabane utils 'Depends: libc6 (>= 2.28), passwd
Recommends: ca-certificates, fuse3
Suggests: openssl (>= 3)' 'encrypted, deduplicated backups of files
 Tabane makes encrypted, deduplicated backups of files, and brings them back
 whole or one by one. A backup can be in a directory, in an object store, or
 over several disks or machines of which any two may fail.
 .
 The package has systemd units, which are off, and a provider with which
 programs that use OpenSSL 3 can hash and encrypt by the same kernels.'

root=$work/libtabane0
mkdir -p "$root/usr/$multiarch" "$root/DEBIAN"
cp -P "$folder"/lib/libtabane.so.* "$root/usr/$multiarch"
chmod 644 "$root/usr/$multiarch/libtabane.so.$version"
printf 'libtabane 0 libtabane0 (>= %s)\n' "$version" > "$root/DEBIAN/shlibs"
printf 'activate-noawait ldconfig\n' > "$root/DEBIAN/triggers"
package libtabane0 libs 'Depends: libc6 (>= 2.28)
Multi-Arch: same' 'hashes of many messages at once, one a SIMD lane
 The shared library of Tabane: MD5, SHA-1 and SHA-2 of many messages at once,
 each in a lane of the vector registers.'

root=$work/libtabane-dev
mkdir -p "$root/usr/$multiarch/pkgconfig" "$root/usr/include"
cp -P "$folder/lib/libtabane.so" "$folder/lib/libtabane.a" "$root/usr/$multiarch"
cp "$folder/include/tabane.h" "$root/usr/include"
sed "s:^prefix=.*:prefix=/usr:; s:^Libs\: .*:Libs\: -L\${prefix}/$multiarch -ltabane:" \
    "$folder/lib/pkgconfig/tabane.pc" > "$root/usr/$multiarch/pkgconfig/tabane.pc"
package libtabane-dev libdevel "Depends: libtabane0 (= $version)
Multi-Arch: same" 'header and static library of libtabane
 What programs in C are compiled with that hash by Tabane.'
