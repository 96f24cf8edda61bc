"""The program in a process that was forked for it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from importlib import import_module
from typing import NoReturn

circletool: Callable[[], None] = import_module("circletool_cli.main").main


def become(words: list[str]) -> NoReturn:
    """Run a command in this process, which ends with it; 70 means an uncaught exception."""
    sys.argv[1:] = words
    status = 70
    try:
        circletool()
        status = 0
    except SystemExit as end:
        status = int(end.code or 0)
    finally:
        os._exit(status)
