"""Hashes: the same as hashlib, whatever is done to them."""

import array
import hashlib
import hmac
import io
import random
import threading

import pytest
import tabane

BOTH = ["md5", "sha1", "sha224", "sha256", "sha384", "sha512"]

# Of the specifications and reference programs, for the message abc.
OTHERS = {
    "blake3": "6437b3ac38465133ffb63b75273a8db548c558465d79db03fd359c6cd5bd9d85",
    "xxh3": "78af5f94892f3950",
    "xxh128": "06b05ab6733a618578af5f94892f3950",
    "xxh64": "44bc2cf5ad770999",
    "xxh32": "32d153ff",
}


def test_random_sequences_of_calls_are_those_of_hashlib():
    choose = random.Random(20261123)
    data = choose.randbytes(200_000)
    for number in range(10_000):
        name = choose.choice(BOTH)
        pairs = [(tabane.new(name), hashlib.new(name))]
        for _ in range(choose.randrange(1, 8)):
            ours, theirs = choose.choice(pairs)
            call = choose.randrange(4)
            if call < 2:
                start = choose.randrange(len(data))
                longest = choose.choice([1, 70, 130, 3000, 100_000 if number % 50 == 0 else 500])
                piece = data[start : start + choose.randrange(longest + 1)]
                kind = choose.choice([bytes, bytearray, memoryview])
                ours.update(kind(piece))
                theirs.update(piece)
            elif call == 2:
                pairs.append((ours.copy(), theirs.copy()))
            else:
                assert ours.digest() == theirs.digest()
        for ours, theirs in pairs:
            assert ours.hexdigest() == theirs.hexdigest(), (number, name)


@pytest.mark.parametrize("name", BOTH)
def test_attributes_are_those_of_hashlib(name):
    ours, theirs = getattr(tabane, name)(b"abc"), getattr(hashlib, name)(b"abc")
    for attribute in ("name", "digest_size", "block_size"):
        assert getattr(ours, attribute) == getattr(theirs, attribute)
    assert ours.digest() == theirs.digest()
    assert tabane.new(name.upper(), b"abc").digest() == theirs.digest()


@pytest.mark.parametrize("name", OTHERS)
def test_hashes_that_hashlib_lacks(name):
    assert tabane.new(name, b"abc").hexdigest() == OTHERS[name]
    hash = tabane.new(name)
    for piece in (b"a", b"", b"bc"):
        hash.update(piece)
    assert hash.copy().hexdigest() == OTHERS[name]
    assert tabane.hash_many(name, [b"abc"])[0].hex() == OTHERS[name]


def test_keys():
    key = bytes(range(32))
    for name in tabane.algorithms_keyed - {"vmac-64", "vmac-128"}:
        size = {"siphash-2-4": 16}.get(name, 32)
        hash = tabane.new(name, b"abc", key=key[:size])
        assert tabane.hash_many(name, [b"abc"], key=key[:size]) == [hash.digest()]
    assert tabane.new("hmac-sha256", b"abc", key=b"k").digest() == hmac.digest(
        b"k", b"abc", "sha256"
    )
    with pytest.raises(ValueError, match="takes a key"):
        tabane.new("hmac-sha256")
    with pytest.raises(ValueError, match="takes no key"):
        tabane.new("md5", key=b"k")


@pytest.mark.parametrize("name", BOTH)
def test_many_are_those_of_hashlib(name):
    choose = random.Random(name)
    lengths = [0, 1, 55, 56, 63, 64, 65, 111, 112, 127, 128, 5_000_000, 9_000_000]
    lengths += [choose.randrange(20_000) for _ in range(300)]
    choose.shuffle(lengths)
    messages = [choose.randbytes(length) for length in lengths]
    digests = [hashlib.new(name, message).digest() for message in messages]
    assert tabane.hash_many(name, messages) == digests
    assert tabane.hash_many(name, (memoryview(message) for message in messages)) == digests
    size = len(digests[0])
    out = bytearray(size * len(messages))
    assert tabane.hash_many(name, messages, out=out) is out
    assert bytes(out) == b"".join(digests)
    tags = [hmac.digest(b"key", message, name) for message in messages]
    assert tabane.hmac_many(name, b"key", messages) == tags


def test_many_of_nothing():
    assert tabane.hash_many("md5", []) == []
    assert tabane.hmac_many("md5", b"key", []) == []
    assert tabane.hash_many("cityhash128", [b"a" * 5_000_000, b""])[1].hex()


def test_numpy_arrays_go_in_and_out():
    numpy = pytest.importorskip("numpy")
    rows = numpy.random.default_rng(1).integers(0, 256, (100, 33), numpy.uint8)
    out = numpy.empty((100, 32), numpy.uint8)
    assert tabane.hash_many("sha256", rows, out=out) is out
    assert [bytes(row) for row in out] == [hashlib.sha256(bytes(row)).digest() for row in rows]
    with pytest.raises(BufferError, match=r"buffers\[0\].*contiguous"):
        tabane.hash_many("sha256", [rows[:, ::2]])
    with pytest.raises(BufferError, match="out.*contiguous"):
        tabane.hash_many("sha256", rows, out=numpy.empty((100, 64), numpy.uint8)[:, ::2])


def test_bad_buffers():
    for bad in ("text", 5, None, object()):
        with pytest.raises(TypeError, match=r"buffers\[1\]"):
            tabane.hash_many("md5", [b"", bad])
        if bad is not None:
            with pytest.raises(TypeError):
                tabane.md5(bad)
    with pytest.raises(TypeError, match="encode"):
        tabane.md5("text")
    with pytest.raises(TypeError, match="one message"):
        tabane.hash_many("md5", b"abc")
    with pytest.raises(BufferError):
        tabane.md5(memoryview(b"abcdef")[::2])
    with pytest.raises(ValueError, match="out has 15 bytes"):
        tabane.hash_many("md5", [b""], out=bytearray(15))
    with pytest.raises(BufferError, match="writable"):
        tabane.hash_many("md5", [b""], out=bytes(16))
    with pytest.raises(ValueError, match="did you mean 'sha256'|did you mean \"sha256\""):
        tabane.new("sha-256")
    with pytest.raises(ValueError, match="choose one of"):
        tabane.new("md4")
    released = memoryview(bytearray(5))
    released.release()
    with pytest.raises(BufferError):
        tabane.md5(released)


def test_buffers_cannot_change_their_size_meanwhile():
    buffer = bytearray(b"abc")

    def buffers():
        yield buffer
        with pytest.raises(BufferError):
            buffer.extend(b"more")
        yield array.array("i", [1, 2, 3])

    assert len(tabane.hash_many("md5", buffers())) == 2
    buffer.extend(b"more")


def test_an_exception_of_the_iterable_passes():
    def buffers():
        yield b"abc"
        raise KeyError("of the iterable")

    with pytest.raises(KeyError):
        tabane.hash_many("md5", buffers())


def test_file_digest(tmp_path):
    data = random.Random(1).randbytes(1_000_003)
    (tmp_path / "file").write_bytes(data)
    expected = hashlib.sha256(data).digest()
    with open(tmp_path / "file", "rb") as file:
        assert tabane.file_digest(file, "sha256").digest() == expected
    with open(tmp_path / "file", "rb", buffering=0) as file:
        assert tabane.file_digest(file, tabane.sha256).digest() == expected
    assert tabane.file_digest(io.BytesIO(data), "sha256").digest() == expected
    with open(tmp_path / "file") as file, pytest.raises(ValueError, match="binary"):
        tabane.file_digest(file, "sha256")


def test_threads_share_a_hash():
    hash, piece = tabane.sha256(), b"x" * 100_000

    def work():
        for _ in range(50):
            hash.update(piece)
            hash.copy().digest()

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert hash.digest() == hashlib.sha256(piece * 400).digest()


def test_threads_hash_many_at_once():
    messages = [bytes([number % 256]) * number for number in range(2000)]
    expected = [hashlib.sha1(message).digest() for message in messages]
    failures = []

    def work():
        for _ in range(10):
            if tabane.hash_many("sha1", messages) != expected:
                failures.append(1)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_threads_change_the_list_that_is_hashed():
    """What is hashed is what was in the list at some moment; nothing else may happen."""
    buffers, stop = [bytes([number]) * 100 for number in range(200)], threading.Event()
    known = {hashlib.sha256(buffer).digest() for buffer in buffers}

    def change():
        choose = random.Random(1)
        while not stop.is_set():
            buffers.append(buffers.pop(choose.randrange(len(buffers))))

    threads = [threading.Thread(target=change) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(300):
            assert set(tabane.hash_many("sha256", buffers)) <= known
    finally:
        stop.set()
        for thread in threads:
            thread.join()
