"""Prove that two versions of circletools give the same results: record both, then compare the records.

    python -m tools.same_results record PYTHON OUTDIR --models DIR... --traces DIR... [--jobs 2] [--only REGEX]
    python -m tools.same_results compare OLD NEW [--renames renames.json] [--limit 5]

`record` runs every command of the `circletool` installed in PYTHON on every model and trace below these directories
(`result_cases.py` lists the cases), and stores exit statuses, standard output, messages, and hashes of written files.
`compare` counts and lists the differences. Its exit status is 1 unless exit statuses, files, JSON and CSV are equal.
Text for people may change, and differences are only counted; in a page, the embedded document must be equal.

Renames are dotted paths from the top of a document (skipping list indices), or bare names for any depth. `ignore`
lists fields that are left out of both records:

    {"fields": {"old": "new"}, "ignore": ["version"], "commands": {"diff": {"fields": {"changes.old": "new"}}}}
"""

from __future__ import annotations

import argparse
import csv
import gzip
import hashlib
import json
import os
import queue
import re
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

from tools.result_cases import COMMANDS, MODELS, TRACES, all_groups, labelled
from tools.result_worker import Group

ENVIRONMENT = {"LANG": "C.UTF-8", "TZ": "UTC", "COLUMNS": "100", "NO_COLOR": "1", "OPENBLAS_NUM_THREADS": "1",
               "PYTHONDONTWRITEBYTECODE": "1", "PYTHONHASHSEED": "0", "PATH": os.defpath}  # fmt: skip


class Record(NamedTuple):
    """The results of a run: cases by key, texts by hash, and the hashes of the input files."""

    cases: dict[str, dict[str, Any]]
    texts: dict[str, str]
    inputs: dict[str, str]


def record(python: str, folder: Path, models: list[Path], traces: list[Path], jobs: int, only: str) -> None:
    """Run all cases and write the record to a directory."""
    read = labelled(models, MODELS), labelled(traces, TRACES)
    inputs = {name: hashlib.sha256(path.read_bytes()).hexdigest() for some in read for name, path in some.items()}
    waiting: queue.SimpleQueue[Group] = queue.SimpleQueue()
    for group in all_groups(*read):
        if re.search(only, group.name):
            waiting.put(group)
    found = Record({}, {}, inputs)
    start = time.monotonic()
    threads = [threading.Thread(target=_feed, args=(python, waiting, found)) for _ in range(jobs)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        time.sleep(0.2)
        if sys.stderr.isatty():
            print(f"\r{len(found.cases)} cases, {waiting.qsize()} groups to go ", end="", file=sys.stderr, flush=True)
    print(f"{len(found.cases)} cases in {time.monotonic() - start:.0f} s", file=sys.stderr)
    if not waiting.empty():
        sys.exit("a worker ended early: the record is not whole, and not written")
    folder.mkdir(parents=True, exist_ok=True)
    for name, value in found._asdict().items():
        with gzip.open(folder / f"{name}.json.gz", "wt", compresslevel=3) as file:
            json.dump(dict(sorted(value.items())), file, indent=0)
    _show_new_commands(found)


def _feed(python: str, waiting: queue.SimpleQueue[Group], found: Record) -> None:
    """Let a process run groups until none are left."""
    words = ["nice", "-n", "10", python, str(Path(__file__).resolve().with_name("result_worker.py"))]
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        with suppress(queue.Empty):
            while True:
                group = waiting.get_nowait()
                print(json.dumps(asdict(group)), file=process.stdin, flush=True)
                answer = process.stdout.readline()
                if not answer:
                    waiting.put(group)
                    return
                result = json.loads(answer)
                found.cases.update((case["key"], case) for case in result["cases"])
                found.texts.update(result["texts"])


def _show_new_commands(found: Record) -> None:
    """Print the commands that have no cases."""
    for key, case in found.cases.items():
        if key.endswith(": --help"):
            listed = found.texts[case["stdout"]].partition("Commands:")[2]
            missing = set(re.findall(r"^  ([a-z][a-z-]+)  ", listed, re.MULTILINE)) - set(COMMANDS)
            print(f"commands without cases: {sorted(missing) or 'none'}", file=sys.stderr)
            return


def load(folder: Path) -> Record:
    """Read a record."""
    parts = []
    for name in Record._fields:
        with gzip.open(folder / f"{name}.json.gz", "rt") as file:
            parts.append(json.load(file))
    return Record(*parts)


# --- Comparing


class Renames:
    """The fields that may have other names in the new record, for one command's documents."""

    def __init__(self, document: dict[str, Any], command: str) -> None:
        own = document.get("commands", {}).get(command, {})
        self._fields: dict[str, str] = {**document.get("fields", {}), **own.get("fields", {})}
        self._ignored = {*document.get("ignore", ()), *own.get("ignore", ())}

    def apply(self, value: Any, *, rename: bool, path: str = "") -> Any:
        """Return a document without ignored fields and, with `rename`, with the new names."""
        if isinstance(value, list):
            return [self.apply(item, rename=rename, path=path) for item in value]
        if not isinstance(value, dict):
            return value
        result = {}
        for name, item in value.items():
            place = f"{path}.{name}" if path else name
            if not {name, place} & self._ignored:
                new = self._fields.get(place, self._fields.get(name, name)) if rename else name
                result[new] = self.apply(item, rename=rename, path=place)
        return result


def parsed(text: str, form: str) -> Any:
    """Return the values in JSON, JSON Lines or CSV. Raises ValueError."""
    if form == "csv":
        rows = list(csv.reader(StringIO(text)))
        header = rows[0] if rows else []
        return {"columns": {name: number for number, name in enumerate(header)},
                "rows": [dict(zip(header, row, strict=True)) for row in rows[1:]]}  # fmt: skip
    try:
        return json.loads(text)
    except ValueError:
        return [json.loads(line) for line in text.splitlines()]


def first_difference(old: Any, new: Any, path: str = "") -> str:
    """Return the first place where two documents differ, and both values; empty if they are equal."""
    if isinstance(old, dict) and isinstance(new, dict):
        if old.keys() != new.keys():
            return f"{path}: fields gone {sorted(old.keys() - new.keys())}, new {sorted(new.keys() - old.keys())}"
        pairs = [(old[name], new[name], f"{path}.{name}") for name in old]
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        pairs = [(one, other, f"{path}[{number}]") for number, (one, other) in enumerate(zip(old, new, strict=True))]
    else:
        same = json.dumps(old) == json.dumps(new)
        return "" if same else f"{path}: {json.dumps(old)[:80]} became {json.dumps(new)[:80]}"
    return next((found for pair in pairs if (found := first_difference(*pair))), "")


class Difference(NamedTuple):
    """A difference in a case; `kind` is `renamed`, `text` or `messages`, or names something that must not differ."""

    kind: str
    what: str


FORMS = {".json": "json", ".jsonl": "json", "#document": "json", ".csv": "csv", ".html": "text"}
HARMLESS = ("renamed", "text", "messages")


class Comparison:
    """Two records, side by side."""

    def __init__(self, old: Record, new: Record, renames: dict[str, Any]) -> None:
        self._old, self._new, self._renames = old, new, renames

    def differences(self, key: str) -> Iterator[Difference]:
        """Yield the differences in a case."""
        old, new = self._old.cases.get(key), self._new.cases.get(key)
        if old is None or new is None:
            yield Difference("cases", f"only in the {'old' if old else 'new'} record")
            return
        if old["status"] != new["status"]:
            yield Difference("exit status", f"{old['status']} became {new['status']}")
        if old["stderr"] != new["stderr"]:
            yield Difference("messages", self._lines(old["stderr"], new["stderr"]))
        yield from self._part(old["command"], self._form(key), "output", old["stdout"], new["stdout"])
        for name in sorted(old["files"].keys() | new["files"].keys()):
            one, other = (case["files"].get(name, "not written") for case in (old, new))
            form = next((form for ending, form in FORMS.items() if name.endswith(ending)), "")
            if form == "text" and f"{name}#document" not in new["files"]:
                form = ""
            yield from self._part(old["command"], form, f"files ({name})", one, other)

    def _form(self, key: str) -> str:
        """Return the output format of a command."""
        if re.search(r" (--json|--format json)\b", key):
            return "json"
        return "csv" if "--format csv" in key else "text"

    def _part(self, command: str, form: str, what: str, old: str, new: str) -> Iterator[Difference]:
        """Compare printed output, or a file."""
        if old == new:
            return
        texts = self._old.texts.get(old), self._new.texts.get(new)
        kind = "files" if what.startswith("files") else form
        if form == "text" and (texts != (None, None) or kind == "files"):
            kind = "text" if all(texts) or kind == "files" else "text appeared or vanished"
            yield Difference(kind, f"{what}: {self._lines(old, new)}")
            return
        try:
            values = [parsed(text, form) for text in texts if text is not None and form]
        except ValueError:
            values = []
        if len(values) < 2:
            yield Difference(kind, f"{what}: {self._lines(old, new)}")
            return
        renames = Renames(self._renames, command)
        one, other = renames.apply(values[0], rename=True), renames.apply(values[1], rename=False)
        if difference := first_difference(one, other):
            yield Difference(kind, f"{what}: {difference}")
        elif (one, other) != tuple(values):
            yield Difference("renamed", what)
        elif kind == "files" and not what.endswith("#document)"):
            yield Difference(kind, f"{what}: the values are equal, the bytes are not")

    def _lines(self, old: str, new: str) -> str:
        """Return the first lines that differ, or the hashes."""
        texts = self._old.texts.get(old), self._new.texts.get(new)
        if texts[0] is None or texts[1] is None:
            return f"{old[:12]} became {new[:12]}"
        one, other = ([*text.splitlines(), "(end)", "(end)"] for text in texts if text is not None)
        pairs = [pair for pair in zip(one, other, strict=False) if pair[0] != pair[1]]
        return f"{pairs[0][0][:90]!r} became {pairs[0][1][:90]!r}" if pairs else "line ends or lengths"

    def show(self, limit: int) -> int:
        """Print the table and the differences; return the exit status."""
        table: dict[str, Counter[str]] = defaultdict(Counter)
        listed: dict[str, list[str]] = defaultdict(list)
        for name in sorted(self._old.inputs.keys() | self._new.inputs.keys()):
            if self._old.inputs.get(name) != self._new.inputs.get(name):
                listed["inputs"].append(name)
        for key in sorted(self._old.cases.keys() | self._new.cases.keys()):
            found = list(self.differences(key))
            kinds = {difference.kind for difference in found}
            row = table[(self._old.cases.get(key) or self._new.cases[key])["command"]]
            bad = kinds - set(HARMLESS)
            row.update(kinds & {"text", "messages"})
            row.update(("cases", "different" if bad else "renamed" if "renamed" in kinds else "equal"))
            for difference in found:
                listed[difference.kind].append(f"{key}\n      {difference.what}")
        columns = ("cases", "equal", "renamed", "different", "text", "messages")
        print(f"{'':22}{''.join(f'{column:>11}' for column in columns)}")
        table["all"] = sum(table.values(), Counter())
        for name, row in table.items():
            print(f"{name[:21]:22}{''.join(f'{row[column]:>11}' for column in columns)}")
        for kind, some in sorted(listed.items(), key=lambda item: item[0] in HARMLESS):
            print(f"\n{kind}: {len(some)}{' (no failure)' if kind in HARMLESS else ''}")
            print("".join(f"  {what}\n" for what in some[:limit]), end="")
        return int(any(kind not in HARMLESS for kind in listed))


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="what", required=True)
    recording = commands.add_parser("record", help="run all cases")
    recording.add_argument("python", metavar="PYTHON", help="the interpreter that has circletools")
    recording.add_argument("folder", metavar="OUTDIR", type=Path, help="where the record goes")
    for what in ("--models", "--traces"):
        recording.add_argument(what, nargs="+", default=[], type=Path, metavar="DIR", help="what is below is read")
    recording.add_argument("--jobs", type=int, default=2, help="processes")
    recording.add_argument("--only", default="", metavar="REGEX", help="the groups of cases whose name it finds")
    comparing = commands.add_parser("compare", help="compare two records")
    comparing.add_argument("old", type=Path)
    comparing.add_argument("new", type=Path)
    comparing.add_argument("--renames", type=Path, help="fields that have other names in NEW (JSON)")
    comparing.add_argument("--limit", type=int, default=5, help="how many differences of a kind are listed")
    given = parser.parse_args()
    if given.what == "record":
        record(given.python, given.folder, given.models, given.traces, given.jobs, given.only)
    else:
        renames = json.loads(given.renames.read_text()) if given.renames else {}
        sys.exit(Comparison(load(given.old), load(given.new), renames).show(given.limit))


if __name__ == "__main__":
    main()
