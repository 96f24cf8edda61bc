"""Take from a Python on Linux what it lacks on macOS; CONTRIBUTING.md has the command."""

import errno
import os

for name in ("copy_file_range", "O_TMPFILE", "posix_fadvise", "POSIX_FADV_DONTNEED", "sched_getaffinity"):
    if hasattr(os, name):
        delattr(os, name)


def _sendfile(out_fd: int, in_fd: int, offset: int | None, count: int) -> int:
    raise OSError(errno.ENOTSOCK, "Socket operation on non-socket")


os.sendfile = _sendfile
