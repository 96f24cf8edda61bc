"""Take from a Python on Linux what it lacks on Windows; CONTRIBUTING.md has the command."""

import os
import signal
import sys

_OF_SYSTEM = """copy_file_range O_TMPFILE posix_fadvise POSIX_FADV_DONTNEED sched_getaffinity pread pwrite preadv
pwritev fchown fchmod chown lchown geteuid SEEK_HOLE SEEK_DATA O_CLOEXEC O_DIRECTORY mkfifo"""

for module, names in ((os, _OF_SYSTEM), (signal, "SIGHUP SIGPIPE pthread_sigmask")):
    for name in names.split():
        if hasattr(module, name):
            delattr(module, name)
for name in ("fcntl", "resource", "pty", "termios"):
    sys.modules[name] = None  # type: ignore[assignment]
