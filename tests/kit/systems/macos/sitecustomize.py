"""Take from a Python on Linux what it lacks on macOS; CONTRIBUTING.md has the command."""

import os

for name in ("copy_file_range", "O_TMPFILE", "posix_fadvise", "POSIX_FADV_DONTNEED", "sched_getaffinity"):
    if hasattr(os, name):
        delattr(os, name)
