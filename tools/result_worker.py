"""The process in which the cases of `same_results.py` run.

Its Python contains the circletools under test. It imports the program once, and runs each case in a fork of itself,
in a directory with copies of the files that the case reads.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import resource
import select
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

SECONDS, ADDRESS_SPACE, KEPT_TEXT = 60.0, 4 << 30, 4 << 20
VOLATILE = ("seconds", "mtime_ns")  # in logs: specific to one run
PAGE_DOCUMENT = re.compile(r'<script type="application/json" id="document"[^>]*>(.*?)</script>', re.DOTALL)


@dataclass
class Given:
    """A file that cases read: `text`, or the first `keep` bytes of `path`, with the byte at `flip` changed."""

    path: str = ""
    text: str = ""
    keep: int = -1
    flip: int = -1

    def write(self, target: Path) -> None:
        """Write the file."""
        data = bytearray(Path(self.path).read_bytes() if self.path else self.text.encode())
        if self.flip >= 0 and data:
            data[self.flip % len(data)] ^= 0x5A
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data[: self.keep] if self.keep >= 0 else data)


@dataclass
class Group:
    """Commands that run one after another in a separate directory; `< FILE` at the end is standard input.

    Commands that begin with `~` are left out for most models, since they add little to other forms.
    """

    name: str
    given: dict[str, Given]
    commands: list[str]


class Worker:
    """Runs commands in forks of this process, which has imported everything that they need."""

    def __init__(self, folder: Path) -> None:
        self._program: Callable[[], None] = import_module("circletool_cli.main").main
        self._folder = folder
        self._texts: dict[str, str] = {}

    def run_group(self, group: Group) -> dict[str, Any]:
        """Return the result of each command, and the texts that the hashes in the results represent."""
        self._texts = {}
        cases = []
        with tempfile.TemporaryDirectory(dir=self._folder) as name:
            place = Path(name)
            for relative, given in group.given.items():
                given.write(place / relative)
            known = self._files(place, {})
            for command in group.commands:
                start = time.perf_counter()
                words, _, source = command.partition(" < ")
                status = self._run(place, words.split(), source)
                spent = time.perf_counter() - start
                now = self._files(place, known)
                changed = {path: kept[1] for path, kept in now.items() if known.get(path, ((), ""))[1] != kept[1]}
                files = changed | dict.fromkeys(known.keys() - now.keys(), "removed")
                cases.append({"key": f"{group.name}: {command}", "command": (*words.split(), "(none)")[0],
                              "status": status, "stdout": self._keep(place, self._folder / "stdout"),
                              "stderr": self._keep(place, self._folder / "stderr"),
                              "files": files, "seconds": round(spent, 3)})  # fmt: skip
                known = now
        return {"cases": cases, "texts": self._texts}

    def _run(self, place: Path, words: list[str], source: str) -> str:
        """Run a command; return its outcome. Modules that it imported are imported here too, for later commands."""
        names = self._folder / "modules"
        names.unlink(missing_ok=True)
        child = os.fork()
        if child == 0:
            self._become(place, words, source, names)
        handle = os.pidfd_open(child)
        in_time = bool(select.select([handle], [], [], SECONDS)[0])
        os.close(handle)
        with suppress(ProcessLookupError):  # also processes that it left behind
            os.killpg(child, signal.SIGKILL)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        for module in names.read_text().split() if names.exists() else ():
            with suppress(Exception):
                import_module(module)
        return str(status) if in_time else f"more than {SECONDS:g} s"

    def _become(self, place: Path, words: list[str], source: str, names: Path) -> NoReturn:
        status = 70  # for an uncaught exception
        try:
            os.setsid()
            os.chdir(place)
            create = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
            os.dup2(os.open(source or os.devnull, os.O_RDONLY), 0)
            for number, name in ((1, "stdout"), (2, "stderr")):
                os.dup2(os.open(self._folder / name, create), number)
            sys.stdin = open(0, closefd=False)  # noqa: SIM115 - without what the other has read ahead
            resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
            before = set(sys.modules)
            sys.argv = ["circletool", *words]
            try:
                self._program()
                status = 0
            except SystemExit as end:
                status = int(end.code or 0)
            sys.stdout.flush()
            if new := sorted(name for name in set(sys.modules) - before if "__mp_main__" not in name):
                names.write_text("\n".join(new))
        finally:
            os._exit(status)

    def _files(self, place: Path, known: dict[str, Any]) -> dict[str, Any]:
        """Return the state and the hash of each file; unchanged files are not read again."""
        found: dict[str, Any] = {}
        for path in sorted(place.rglob("*")):
            if path.is_dir() and not path.is_symlink():
                continue
            relative, entry = path.relative_to(place).as_posix(), path.lstat()
            state = (entry.st_mtime_ns, entry.st_size, entry.st_ino)
            old = known.get(relative)
            found[relative] = old if old and old[0] == state else (state, self._keep(place, path))
            if path.suffix == ".html" and (match := PAGE_DOCUMENT.search(path.read_text(errors="surrogateescape"))):
                found[f"{relative}#document"] = (state, self._store(match[1].encode(errors="surrogateescape"), ""))
        return found

    def _keep(self, place: Path, path: Path) -> str:
        """Return the hash of a file, without values that are specific to this run."""
        if path.is_symlink():
            return f"link to {path.readlink()}"
        data = path.read_bytes().replace(str(place).encode(), b"PLACE")
        if path.suffix == ".jsonl":
            lines = [json.loads(line) for line in data.splitlines()]
            data = "".join(f"{json.dumps(_without(line, VOLATILE))}\n" for line in lines).encode()
        return self._store(data, path.suffix)

    def _store(self, data: bytes, suffix: str) -> str:
        """Return the hash; store data that can be compared value by value, or shown."""
        kept = hashlib.sha256(data).hexdigest()
        if suffix in ("", ".json", ".jsonl", ".csv") and len(data) < KEPT_TEXT and b"\0" not in data:
            self._texts[kept] = data.decode(errors="surrogateescape")
        return kept


def _without(line: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: value for name, value in line.items() if name not in names}


def work() -> None:
    """Read requests, each a group, from standard input, and write each answer as a line to standard output."""
    requests, answers = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w")
    with tempfile.TemporaryDirectory() as name:
        worker = Worker(Path(name).resolve())
        for line in requests:
            request = json.loads(line)
            given = {path: Given(**fields) for path, fields in request["given"].items()}
            result = worker.run_group(Group(request["name"], given, request["commands"]))
            print(json.dumps(result), file=answers, flush=True)


if __name__ == "__main__":
    work()
