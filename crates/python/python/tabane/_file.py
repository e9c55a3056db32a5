"""Files of snapshots as Python's binary files."""

import io

#: Bytes that a buffered file reads at a time.
_BUFFER_SIZE = 1 << 20


class _Raw(io.RawIOBase):
    def __init__(self, file, name):
        self._file = file
        self._size = file.size
        self._position = 0
        self.name = name
        self.mode = "rb"

    def readable(self):
        return True

    def seekable(self):
        return True

    def tell(self):
        self._check_open()
        return self._position

    def seek(self, offset, whence=io.SEEK_SET):
        self._check_open()
        if whence not in (io.SEEK_SET, io.SEEK_CUR, io.SEEK_END):
            raise ValueError(f"whence is {whence}: give 0, 1 or 2")
        base = (0, self._position, self._size)[whence]
        if base + offset < 0:
            raise ValueError(f"cannot seek to {base + offset}, before the beginning")
        self._position = base + offset
        return self._position

    def readinto(self, buffer):
        self._check_open()
        count = self._file.read_into(self._position, buffer)
        self._position += count
        return count

    def readall(self):
        self._check_open()
        data = bytearray(max(0, self._size - self._position))
        view = memoryview(data)
        filled = 0
        while filled < len(data):
            filled += self.readinto(view[filled:])
        return bytes(data)

    def _check_open(self):
        if self.closed:
            raise ValueError("the file is closed")


def open_file(file, name):
    """A buffered file over a native one."""
    return io.BufferedReader(_Raw(file, name), _BUFFER_SIZE)
