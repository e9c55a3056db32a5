#!/usr/bin/env python3
"""Lists and restores the snapshots of a repository, without Tabane.

A second reader of the format, written from docs/reference/format.md (and parity.md, for striped
repositories) alone. It is slow and simple on purpose, verifies all that it reads, and changes
nothing in the repository.

    pip install blake3 'cryptography>=48' zstandard xxhash
    read-repository.py snapshots REPOSITORY...
    read-repository.py restore REPOSITORY... SNAPSHOT FOLDER

REPOSITORY is a directory: that of a plain repository, or one for each target of a striped one, of
which two may be missing. SNAPSHOT is the beginning of an ID, or `latest`. The password is the first
line of the file $TABANE_PASSWORD_FILE, or $TABANE_PASSWORD; that of a write-only key opens nothing
that could be restored. xxhash is for striped repositories.
"""

import argparse
import collections
import functools
import hashlib
import io
import json
import os
import re
import stat
import struct
import sys
from pathlib import Path

from blake3 import blake3
from cryptography.exceptions import InvalidSignature, InvalidTag
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.mlkem import MLKEM768PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.argon2 import Argon2id
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
import zstandard

MIB = 1 << 20
BLOCK_MAX = 16 * MIB
SEGMENT_MAX = 16 * MIB + MIB // 2
TAG = 16
HEADER = 40
ENCAPSULATION = 32 + 1088
WRITER = 16
SIGNATURE = 64
FEATURES = {"write-only"}
# The format bytes that objects of a kind may have.
SEALED = {b"C": (1, 2), b"P": (1, 3), b"S": (1, 3), b"N": (1, 3), b"I": (1, 2), b"U": (4,)}
HEX_ID = re.compile("[0-9a-f]{64}")


class Damaged(Exception):
    """Something stored is not as the format says, or is not there."""


def need(condition, message):
    if not condition:
        raise Damaged(message)


# --- Postcard ---


class Postcard:
    """Takes values from the front of bytes."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def bytes(self, length):
        need(length <= len(self.data) - self.at, "postcard: ends too early")
        self.at += length
        return self.data[self.at - length : self.at]

    def unsigned(self, bits):
        value = shift = 0
        while True:
            byte = self.bytes(1)[0]
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
            need(shift < bits, "postcard: a number is too long")
        need(value < 1 << bits, "postcard: a number is too large")
        return value

    def signed(self, bits):
        value = self.unsigned(bits)
        return value >> 1 ^ -(value & 1)

    def u32(self):
        return self.unsigned(32)

    def u64(self):
        return self.unsigned(64)

    def id(self):
        return self.bytes(32)

    def byte_string(self):
        return self.bytes(self.u64())

    def option(self, value):
        present = self.bytes(1)[0]
        need(present < 2, "postcard: an option is neither 0 nor 1")
        return value() if present else None

    def sequence(self, value):
        return [value() for _ in range(self.u64())]

    def variant(self, names):
        number = self.u32()
        need(number < len(names), f"postcard: variant {number} of {names}")
        return names[number]

    def end(self):
        need(self.at == len(self.data), "postcard: something follows the end")


# --- Storage: one directory, or the targets of a striped repository ---


class Directory:
    """A plain repository: each object is a file."""

    def __init__(self, root):
        self.root = Path(root)
        need(self.root.is_dir(), f"{root} is no directory")

    def list(self, folder):
        """IDs of the objects of a folder."""
        return sorted(p.name for p in (self.root / folder).glob("**/*") if HEX_ID.fullmatch(p.name))

    def get(self, name):
        try:
            return (self.root / name).read_bytes()
        except FileNotFoundError:
            raise Damaged(f"{name} is not there") from None


class Striped:
    """The targets of a striped repository: an object is a replica, or cells of a parity code."""

    SECTOR = 65536

    def __init__(self, roots):
        import xxhash

        self.checksum = lambda *parts: xxhash.xxh3_128_digest(b"".join(parts))
        self.targets = [Directory(root) for root in roots]
        sets = set()
        for target in self.targets:
            identity = json.loads(target.get("target"))
            need(identity["format"] == 1, f"{target.root}: format {identity['format']}")
            sets.add(identity["set"])
        need(len(sets) == 1, "these targets are not of one set")

    def list(self, folder):
        ids = {name for target in self.targets for name in target.list(folder)}
        deleted = {name for target in self.targets for name in target.list("deleted")}
        of_record = b"a deleted record".hex()
        return sorted(name for name in ids - deleted if name[:32] + of_record not in deleted)

    def get(self, name):
        shards = []
        for target in self.targets:
            try:
                shards.append(self.shard(name, target.get(name)))
            except Damaged:
                continue
        for length, roles, _, cells in shards:
            if roles == 1 and None not in cells[0]:
                return b"".join(cells[0])[:length]
        for length, roles in sorted({shard[:2] for shard in shards if shard[1] > 1}):
            stripe = [shard for shard in shards if shard[:2] == (length, roles)]
            columns = {role: cells for _, _, role, cells in stripe}
            data = self.solve(roles, columns)
            if data is not None:
                return data[:length]
        raise Damaged(f"{name} is not there: {len(shards)} shards")

    def object_id(self, name):
        last = name.rsplit("/", 1)[-1]
        return bytes.fromhex(last) if HEX_ID.fullmatch(last) else bytes(32)

    def shard(self, name, data):
        """Length of the object, number of roles, role, and for each row its sectors or None."""
        need(data[:7] == b"TABANE#" and data[7:8] in (b"\x01", b"\x02"), "no container")
        # A container of format 2 has a tag behind each sector, which only a writer can make.
        header, tag = (112, 16) if data[7] == 2 else (64, 0)
        object_id = self.object_id(name)
        checksum = self.checksum(object_id, data[: header - 16])
        need(data[header - 16 : header] == checksum, "a header is damaged")
        length, generation, roles, role = struct.unpack_from("<QBBB", data, 8)
        if generation == 0:
            rows, cell = 1, -(-length // 16) * 16
        else:
            code = Code(roles)
            rows, cell = code.rows, -(-length // (code.data * 16)) * 16
        at, cells = header, []
        for row in range(rows):
            sectors = []
            for number, begin in enumerate(range(0, cell, self.SECTOR)):
                # A sector that does not match its checksum counts as missing.
                size = min(self.SECTOR, cell - begin)
                end = at + size + tag
                where = struct.pack("<IIQ", role, row, number)
                whole = data[end : end + 16] == self.checksum(object_id, where, data[at:end])
                sectors.append(data[at : at + size] if whole else None)
                at = end + 16
            cells.append(sectors)
        return length, roles, role, cells

    def solve(self, roles, columns):
        """The data cells, computed sector by sector; None if too much is missing."""
        code = Code(roles)
        if not columns:
            return None
        sectors = len(next(iter(columns.values()))[0])
        cells = {place: [] for place in code.data_places()}
        for number in range(sectors):
            known = {
                (row, role): rows[row][number]
                for role, rows in columns.items()
                for row in range(code.rows)
                if rows[row][number] is not None
            }
            code.peel(known)
            for place in cells:
                if place not in known:
                    return None
                cells[place].append(known[place])
        return b"".join(sector for place in code.data_places() for sector in cells[place])


class Code:
    """The parity code of docs/explanation/parity.md for n targets. Cells are named (row, role)."""

    def __init__(self, n):
        p = max(3, n - 1)
        while any(p % d == 0 for d in range(2, p)):
            p += 1
        self.n, self.p, self.rows = n, p, p - 1
        self.data = (p - 1) * (n - 2)
        columns = [p - 2 - row for row in range(p - 1)]
        for row, column in enumerate(columns):
            if column >= n - 1:
                there = [columns.count(c) for c in range(n - 1)]
                columns[row] = there.index(min(there))
        self.parity = columns
        self.equations = [[(row, c) for c in range(n - 1)] for row in range(self.rows)]
        for row, diagonal in enumerate(d for d in range(p) if d != p - 2):
            on = [(r, c) for r in range(self.rows) for c in range(n - 1) if (r + c) % p == diagonal]
            self.equations.append(on + [(row, n - 1)])

    def data_places(self):
        return [
            (row, c)
            for row in range(self.rows)
            for c in range(self.n - 1)
            if c != self.parity[row]
        ]

    def peel(self, known):
        """Computes missing cells while some equation lacks only one."""
        progress = True
        while progress:
            progress = False
            for equation in self.equations:
                missing = [cell for cell in equation if cell not in known]
                if len(missing) == 1:
                    known[missing[0]] = xor(known[cell] for cell in equation if cell in known)
                    progress = True


def xor(cells):
    cells = list(cells)
    total = functools.reduce(lambda a, b: a ^ int.from_bytes(b, "big"), cells, 0)
    return total.to_bytes(len(cells[0]), "big")


# --- Keys, objects, packs ---


def decrypt(key, nonce, sealed, what):
    try:
        return AESGCM(key).decrypt(nonce, sealed, None)
    except InvalidTag:
        raise Damaged(f"{what} is damaged, or of another key") from None


class Foreign(Exception):
    """An object is as its name says, and nobody who has the master key has signed it."""


def hkdf(secret, info, length=32, salt=None):
    return HKDF(SHA256(), length, salt=salt, info=info).derive(secret)


class Secrets:
    """The master key, and what follows from it for objects of write-only keys."""

    def __init__(self, master):
        self.master = master
        self.index = hkdf(master, b"tabane/2 index")
        seed = hkdf(master, b"tabane/2 authority")
        self.authority = Ed25519PrivateKey.from_private_bytes(seed).public_key()
        x25519 = hkdf(master, b"tabane/2 recipient x25519")
        self.x25519 = X25519PrivateKey.from_private_bytes(x25519)
        self.x25519_public = self.x25519.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
        ml_kem = hkdf(master, b"tabane/2 recipient ml-kem-768", 64)
        self.ml_kem = MLKEM768PrivateKey.from_seed_bytes(ml_kem)

    def own(self, writer):
        return hkdf(self.master, b"tabane/2 writer", salt=writer)

    def shared(self, encapsulation):
        """The secret of an encapsulation."""
        try:
            x25519 = self.x25519.exchange(X25519PublicKey.from_public_bytes(encapsulation[:32]))
            return self.ml_kem.decapsulate(encapsulation[32:]) + x25519
        except ValueError as error:
            raise Damaged(f"a secret cannot be had: {error}") from None


class Object:
    """An object's header, checked, and the key for its parts."""

    def __init__(self, secrets, name, kind, data):
        need(data[:6] == b"TABANE" and data[6:7] == kind, f"{name} is none of kind {kind}")
        need(data[7] in SEALED[kind], f"{name} has format {data[7]}, which its kind never has")
        self.name, self.data, self.format, self.salt = name, data, data[7], data[8:HEADER]
        self.secrets, self.head = secrets, HEADER
        self.writer = self.salt[:WRITER] if self.format > 2 else None
        secret, info = secrets.master, data[:8]
        if kind == b"C":
            pass
        elif self.format == 2:
            secret = secrets.index
        elif self.format == 3:
            self.head += ENCAPSULATION
            need(len(data) >= self.head, f"{name} is too short")
            encapsulation = data[HEADER : self.head]
            secret = secrets.shared(encapsulation) + secrets.own(self.writer)
            info += encapsulation + secrets.x25519_public
        elif self.format == 4:
            secret = secrets.own(self.writer)
        self.is_signed = kind != b"C" and self.format == 2
        self.key = hkdf(secret, info, salt=self.salt)

    def part(self, number, sealed):
        return decrypt(self.key, bytes(4) + number.to_bytes(8, "big"), sealed, self.name)

    def payload(self):
        payload = self.part(0, self.data[self.head :])
        if not self.is_signed:
            return payload
        payload, signature = payload[:-SIGNATURE], payload[-SIGNATURE:]
        signed = b"tabane/2 signed" + self.data[:HEADER] + payload
        try:
            self.secrets.authority.verify(signature, signed)
        except InvalidSignature:
            raise Foreign(f"{self.name} is not signed") from None
        return payload


Segment = collections.namedtuple("Segment", "offset stored_len codec blocks")


def pack_contents(postcard):
    """Salt, length before the first segment, and segments of a PackContents."""
    salt = postcard.bytes(32)
    kind = postcard.variant(("data", "tree", "data of a writer", "tree of a writer"))
    head = offset = HEADER + (ENCAPSULATION if kind.endswith("writer") else 0)

    def segment():
        nonlocal offset
        stored_len = postcard.u32()
        need(TAG <= stored_len <= SEGMENT_MAX + TAG, f"a segment of {stored_len} bytes")
        codec = postcard.variant(("stored", "zstd"))
        blocks = postcard.sequence(lambda: (postcard.id(), postcard.u32()))
        need(all(length <= BLOCK_MAX for _, length in blocks), "a block is too long")
        need(sum(length for _, length in blocks) <= SEGMENT_MAX, "a segment is too long")
        offset += stored_len
        return Segment(offset - stored_len, stored_len, codec, blocks)

    return salt, head, postcard.sequence(segment)


class Repository:
    """An open repository of format 1 or 2."""

    def __init__(self, storage, password):
        self.storage = storage
        self.secrets = Secrets(self.unlock(password))
        self.config = json.loads(self.object("config", b"C").payload())
        unknown = set(self.config.get("features", [])) - FEATURES
        need(not unknown, f"config has features that this reader does not know: {unknown}")
        self.places = self.read_index()
        self.pack = functools.lru_cache(4)(self.read_pack)
        self.segment = functools.lru_cache(64)(self.decode_segment)

    def get(self, name):
        """The bytes of an object, which its name is the BLAKE3 of."""
        data = self.storage.get(name)
        last = name.rsplit("/", 1)[-1]
        whole = not HEX_ID.fullmatch(last) or blake3(data).hexdigest() == last
        need(whole, f"{name} is damaged: it has another BLAKE3")
        return data

    def object(self, name, kind):
        return Object(self.secrets, name, kind, self.get(name))

    def unlock(self, password):
        """The master key, from the first key object that the password opens."""
        for name in self.storage.list("keys"):
            key = json.loads(self.get(f"keys/{name}"))
            if key.get("kind") == "write-only":
                continue
            need(key["format"] == 1, f"key {name} has format {key['format']}")
            need(key["kdf"] == "argon2id", f"key {name} is derived with {key['kdf']}")
            cost = key["cost"]
            small = cost["memory_kib"] <= 4 << 20 and cost["passes"] <= 64 and cost["lanes"] <= 64
            need(small, f"key {name} takes too much to derive")
            kdf = Argon2id(
                salt=bytes.fromhex(key["salt"]),
                length=32,
                iterations=cost["passes"],
                lanes=cost["lanes"],
                memory_cost=cost["memory_kib"],
            )
            wrapped = bytes.fromhex(key["wrapped"])
            try:
                return decrypt(kdf.derive(password), bytes(12), wrapped, f"key {name}")
            except Damaged:
                continue
        raise Damaged("no key is opened by this password")

    def read_index(self):
        """For each block and its length, the segments that hold it, as (pack, number)."""
        places = collections.defaultdict(list)

        def take(packs, only_of_writers):
            for pack, (_, head, segments) in packs:
                if only_of_writers and head == HEADER:
                    continue
                for number, segment in enumerate(segments):
                    for block, length in segment.blocks:
                        places[block, length].append((pack.hex(), number))

        def read(name, kind):
            postcard = Postcard(self.object(name, kind).payload())
            packs = postcard.sequence(lambda: (postcard.id(), pack_contents(postcard)))
            postcard.end()
            return packs

        for name in self.storage.list("index"):
            try:
                take(read(f"index/{name}", b"I"), False)
            except Foreign:
                continue
        # What write-only keys say, where anybody who can write may have put anything.
        for name in self.storage.list("unverified"):
            try:
                take(read(f"unverified/{name}", b"U"), True)
            except Damaged:
                continue
        return places

    def read_pack(self, pack):
        """A pack and its segments, from its own footer."""
        name = f"packs/{pack[:2]}/{pack}"
        sealed = self.object(name, b"P")
        (footer_len,) = struct.unpack("<I", sealed.data[-4:])
        room = len(sealed.data) - sealed.head - 4
        need(TAG <= footer_len <= room, f"{name}: its footer is too long")
        postcard = Postcard(sealed.part(0, sealed.data[-4 - footer_len : -4]))
        salt, head, segments = pack_contents(postcard)
        postcard.end()
        need(head == sealed.head, f"{name}: the footer has another kind")
        need(salt == sealed.salt, f"{name}: the footer has another salt")
        return sealed, segments

    def decode_segment(self, pack, number):
        """The blocks of a segment."""
        sealed, segments = self.pack(pack)
        need(number < len(segments), f"{sealed.name} has no segment {number}")
        segment = segments[number]
        stored = sealed.data[segment.offset : segment.offset + segment.stored_len]
        decoded = sealed.part(number + 1, stored)
        length = sum(length for _, length in segment.blocks)
        if segment.codec == "zstd":
            decoded = zstandard.ZstdDecompressor().stream_reader(decoded).read(length + 1)
        need(len(decoded) == length, f"{sealed.name}: segment {number} has another length")
        blocks, at = {}, 0
        for block, length in segment.blocks:
            blocks[block] = decoded[at : at + length]
            at += length
        return blocks

    def block(self, digest, length):
        """The bytes of a block, compared with its digest."""
        damage = Damaged(f"block {digest.hex()} is in no pack that an index object names")
        for pack, number in self.places[digest, length]:
            try:
                data = self.segment(pack, number).get(digest, b"")
                need(self.named_by(data, digest), f"block {digest.hex()} is damaged")
                return data
            except Damaged as error:
                damage = error
        raise damage

    def named_by(self, data, digest):
        match self.config["hash"]:
            case "sha256":
                return hashlib.sha256(data).digest() == digest
            case "blake3":
                return blake3(data).digest() == digest
            case "sha1":
                return hashlib.sha1(data).digest() == digest[:20] and not any(digest[21:])
            case other:
                raise Damaged(f"config has the hash {other}")

    def content(self, pieces):
        """The runs of bytes of a list of pieces; a hole is its length."""
        for piece in pieces:
            yield self.block(*piece) if isinstance(piece, tuple) else piece

    def directory(self, pieces):
        """The entries of a directory."""
        need(all(isinstance(piece, tuple) for piece in pieces), "a directory has a hole")
        postcard = Postcard(b"".join(self.content(pieces)))
        has_flags = postcard.data[:1] == b"\0"
        postcard.at += has_flags
        while postcard.at < len(postcard.data):
            yield entry(postcard)
            # Which only a file system with such flags could take.
            postcard.at += has_flags

    def snapshots(self):
        """(time, ID, snapshot), the oldest first."""
        found = []
        for name in self.storage.list("snapshots"):
            snapshot = self.read_snapshot(f"snapshots/{name}", b"S")
            found.append((snapshot["time"], name, snapshot))
        return sorted(found, key=lambda one: one[:2])

    def pending(self):
        """Payloads of pending snapshots: a snapshot of the same payload is not confirmed."""
        names = self.storage.list("pending")
        return [self.read_snapshot(f"pending/{name}", b"N") for name in names]

    def read_snapshot(self, name, kind):
        """A snapshot with `writer`, the write-only key that made it, if one did."""
        sealed = self.object(name, kind)
        snapshot = json.loads(sealed.payload())
        if sealed.writer:
            snapshot["writer"] = sealed.writer.hex()
        return snapshot


# --- Entries of directories ---

KINDS = ("file", "directory", "symlink", "character device", "block device", "fifo", "socket")
Entry = collections.namedtuple(
    "Entry", "name mode uid gid mtime atime hard_link xattrs kind fields"
)


def entry(postcard):
    """One `Node` of a directory's content."""

    def time():
        seconds, nanoseconds = postcard.signed(64), postcard.u32()
        return seconds * 10**9 + nanoseconds

    def piece():
        if postcard.variant(("block", "hole")) == "hole":
            return postcard.u64()
        return postcard.id(), postcard.u32()

    name = postcard.byte_string()
    plain = name not in (b"", b".", b"..") and not {0, ord("/")} & set(name)
    need(plain, f"an entry is named {name}")
    mode, uid, gid = postcard.u32(), postcard.u32(), postcard.u32()
    mtime, _ctime, atime = time(), time(), postcard.option(time)
    _inode = postcard.u64()
    hard_link = postcard.option(lambda: (postcard.u64(), postcard.u64()))
    xattrs = postcard.sequence(lambda: (postcard.byte_string(), postcard.byte_string()))
    kind = postcard.variant(KINDS)
    match kind:
        case "file":
            fields = postcard.u64(), postcard.sequence(piece)
        case "directory":
            fields = (postcard.sequence(piece),)
        case "symlink":
            fields = (postcard.byte_string(),)
        case "character device" | "block device":
            fields = postcard.u32(), postcard.u32()
        case _:
            fields = ()
    return Entry(name, mode, uid, gid, mtime, atime, hard_link, xattrs, kind, fields)


# --- Restoring ---


class Restore:
    """Writes a snapshot's tree below a folder, and notes what is damaged."""

    def __init__(self, repository):
        self.repository, self.links = repository, {}
        self.entries, self.damaged = 0, []

    def directory(self, pieces, folder):
        for found in self.repository.directory(pieces):
            path = os.path.join(folder, found.name)
            try:
                self.entry(found, path)
                self.entries += 1
            except (Damaged, OSError) as error:
                self.damaged.append(f"{os.fsdecode(path)}: {error}")

    def entry(self, found, path):
        first = self.links.get(found.hard_link)
        if first and found.kind != "directory":
            os.link(first, path, follow_symlinks=False)
            return
        match found.kind:
            case "file":
                self.file(*found.fields, path)
            case "directory":
                os.mkdir(path, 0o700)
                self.directory(*found.fields, path)
            case "symlink":
                os.symlink(*found.fields, path)
            case "fifo":
                os.mkfifo(path)
            case _:
                kinds = {"character device": stat.S_IFCHR, "block device": stat.S_IFBLK}
                kind = kinds.get(found.kind, stat.S_IFSOCK)
                os.mknod(path, kind | 0o600, os.makedev(*(found.fields or (0, 0))))
        if found.hard_link:
            self.links[found.hard_link] = path
        self.attributes(found, path)

    def file(self, size, pieces, path):
        with open(path, "xb") as file:
            for run in self.repository.content(pieces):
                if isinstance(run, int):
                    file.seek(run, io.SEEK_CUR)
                else:
                    file.write(run)
            need(file.tell() == size, "its pieces do not add up to its size")
            file.truncate(size)

    def attributes(self, found, path):
        if os.geteuid() == 0:
            os.chown(path, found.uid, found.gid, follow_symlinks=False)
        for name, value in found.xattrs:
            os.setxattr(path, name, value, follow_symlinks=False)
        if found.kind != "symlink":
            os.chmod(path, found.mode)
        times = (found.mtime if found.atime is None else found.atime, found.mtime)
        os.utime(path, ns=times, follow_symlinks=False)


def pieces_of_json(root):
    """The pieces of a snapshot's root."""
    return [(bytes.fromhex(piece["Block"]["id"]), piece["Block"]["len"]) for piece in root]


def read_password():
    if path := os.environ.get("TABANE_PASSWORD_FILE"):
        return Path(path).read_bytes().split(b"\n")[0]
    if "TABANE_PASSWORD" in os.environ:
        return os.environb[b"TABANE_PASSWORD"]
    raise Damaged("set TABANE_PASSWORD_FILE or TABANE_PASSWORD")


def open_repository(roots):
    striped = (Path(roots[0]) / "target").exists()
    need(striped or len(roots) == 1, f"{roots[0]} is no target of a striped repository")
    return Repository(Striped(roots) if striped else Directory(roots[0]), read_password())


def print_snapshots(repository):
    pending = repository.pending()
    for time, name, snapshot in repository.snapshots():
        note = f"  (write-only key {snapshot['writer'][:8]})" if "writer" in snapshot else ""
        note += "  (not confirmed)" if snapshot in pending else ""
        print(f"{name}  {time}  {snapshot['hostname']}  {' '.join(snapshot['paths'])}{note}")


def restore(repository, wanted, folder):
    snapshots = repository.snapshots()
    chosen = [s for s in snapshots if s[1].startswith(wanted)]
    if wanted == "latest":
        chosen = snapshots[-1:]
    need(len(chosen) == 1, f"{len(chosen)} snapshots are named {wanted}")
    os.makedirs(folder, exist_ok=True)
    run = Restore(repository)
    run.directory(pieces_of_json(chosen[0][2]["root"]), os.fsencode(folder))
    for line in run.damaged:
        print(f"not restored: {line}", file=sys.stderr)
    print(f"restored snapshot {chosen[0][1][:8]}: {run.entries} entries")
    return 1 if run.damaged else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("snapshots", help="list the snapshots, the oldest first")
    command.add_argument("repository", nargs="+", help="a directory; of a striped one, each target")
    command = commands.add_parser("restore", help="write a snapshot's files below a folder")
    command.add_argument("repository", nargs="+", help="a directory; of a striped one, each target")
    command.add_argument("snapshot", help="the beginning of an ID, or latest")
    command.add_argument("folder", help="made if it is not there")
    given = parser.parse_args()
    try:
        repository = open_repository(given.repository)
        if given.command == "snapshots":
            return print_snapshots(repository)
        return restore(repository, given.snapshot, given.folder)
    except Damaged as error:
        print(f"read-repository: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
