"""Processes that hash while a service is there, forked before and after they have found it."""

import hashlib
import os
import time

data = os.urandom(200_000)
expected = hashlib.new("md5", data, usedforsecurity=False).digest()  # alone: the first call says hello


def hash_for_a_while():
    for _ in range(60):
        assert hashlib.md5(data).digest() == expected
        time.sleep(0.001)


def child():
    pid = os.fork()
    if pid == 0:
        hash_for_a_while()
        os._exit(0)
    return pid


children = [child() for _ in range(2)]
hash_for_a_while()
children += [child() for _ in range(2)]
hash_for_a_while()
for pid in children:
    assert os.waitpid(pid, 0)[1] == 0
