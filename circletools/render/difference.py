"""Differences as text (a few lines for each kind) and JSON."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from functools import cached_property
from itertools import groupby
from typing import Any

import numpy as np

from circletools.diff.difference import Change, ModelDifference
from circletools.diff.summary import summarize
from circletools.errors import ModelFormatError
from circletools.flatbuf.comparison import Difference
from circletools.model.model import Model
from circletools.model.options import enum_of
from circletools.model.views import Tensor, text
from circletools.render.difference_lines import change_statistics, statistics, summary_lines, tensor_with
from circletools.render.table import plain_json, table_text
from circletools.wording import SCHEMA_VERSION, counted

_SIGNS = {"added": "+", "removed": "-", "changed": "~", "moved": ">"}
_MOST_LINES = 40
_ALIKE = 4  # how many differences of a kind are shown; others are only counted
_WIDEST_PATH = 48
_VALUE_CHARACTERS = 100
_OBJECT = re.compile(r"subgraphs\[(\d+)\]\.(operators|tensors)\[(\d+)\]")
_BUFFER_DATA = re.compile(r"buffers\[(\d+)\](?:\.data)?")
_CODE = re.compile(r"operator_codes\[(\d+)\]")
_TENSOR_INDEX = re.compile(r"subgraphs\[(\d+)\]\.(?:operators\[\d+\]\.)?(?:inputs|outputs|intermediates)\[\d+\]")
_BUFFER_INDEX = re.compile(r"(?:.*\.)?buffer|metadata_buffer\[\d+\]")
_SIGNATURE_INDEX = re.compile(r"signature_defs\[(\d+)\]\.(?:inputs|outputs)\[\d+\]\.tensor_index")


def difference_json(found: ModelDifference, before: Model, after: Model) -> dict[str, Any]:
    """Return the JSON document."""
    return {
        "schema_version": SCHEMA_VERSION,
        "before": {"file": before.source.name, "format": before.format, "file_bytes": before.wire.size},
        "after": {"file": after.source.name, "format": after.format, "file_bytes": after.wire.size},
        "identical_bytes": found.identical,
        "summary": asdict(summarize(found, before, after)),
        "changes": [
            {"section": section, "kind": one.kind, "path": one.path}
            | ({} if one.path_after == one.path else {"path_after": one.path_after})
            | {"before": plain_json(one.before), "after": plain_json(one.after)}
            for section, one in found.changes
        ],
        "notes": [note.message for note in found.notes],
    }


def difference_text(found: ModelDifference, before: Model, after: Model, *, full: bool = False) -> Iterator[str]:
    """Yield the differences by section; without `full`, only a few of each kind, with shortened values."""
    if not found.changes:
        layout = "" if found.identical else ", but the files are laid out differently"
        yield "no differences" + (f" besides {found.ignored:,} ignored" if found.ignored else layout)
        return
    labels = Labels(before), Labels(after)
    head = list(summary_lines(summarize(found, before, after)))
    yield from (*head, "") if head else ()
    sections = [(name, _groups(changes)) for name, changes in groupby(found.changes, lambda change: change.section)]
    room = _MOST_LINES - len(head) - bool(head) - 2 * len(sections) - 1
    sizes = [len(group) for _, groups in sections for group in groups]
    alike = next((most for most in range(_ALIKE, 0, -1) if sum(min(size, most) for size in sizes) <= room), 1)
    for section, groups in sections:
        left = len(groups) if full else max(1, room - sum(len(other) > 0 for _, other in sections) + 1)
        shown = groups if len(groups) <= left else groups[: left - 1]
        room -= len(shown)
        yield section
        yield from _section(shown, labels, alike, full)
        if len(shown) < len(groups):
            yield f"  and {counted(len(groups) - len(shown), 'more kind')} of difference (--full shows all)"
        yield ""
    counts = Counter(change.difference.kind for change in found.changes)
    kinds = ", ".join(f"{counts[kind]} {kind}" for kind in _SIGNS if counts[kind])  # type: ignore[index]
    yield f"{counted(len(found.changes), 'difference')}: {kinds}"


_Groups = list[list[Difference]]


def alike(
    found: ModelDifference, before: Model, after: Model, most: int
) -> Iterator[tuple[str, list[Difference], list[tuple[str, str]]]]:
    """Yield the section and differences of each kind, with the paths and descriptions of the first `most`."""
    labels = Labels(before), Labels(after)
    for section, changes in groupby(found.changes, lambda change: change.section):
        for group in _groups(changes):
            yield section, group, [_line(one, labels, False) for one in group[:most]]


def _groups(changes: Iterable[Change]) -> _Groups:
    """Return the differences grouped by kind."""
    groups: dict[tuple[str, str], list[Difference]] = {}
    for _, one in changes:
        groups.setdefault((one.kind, re.sub(r"\[\d+\]", "[]", one.path)), []).append(one)
    return list(groups.values())


def _section(groups: _Groups, labels: tuple[Labels, Labels], alike: int, full: bool) -> Iterator[str]:
    lines: list[tuple[str, str]] = []
    for group in groups:
        shown = group if full or len(group) <= alike else group[: max(1, alike - 1)]
        lines += [_line(one, labels, full) for one in shown]
        more = len(group) - len(shown)
        if more and alike == 1:
            lines[-1] = (lines[-1][0], f"{lines[-1][1]}  (and {more} more of this kind)")
        elif more:
            lines.append(("", f"and {more} more of this kind (--full shows all)"))
    yield from table_text(lines, widest=_WIDEST_PATH)


def _line(one: Difference, labels: tuple[Labels, Labels], full: bool) -> tuple[str, str]:
    """Return the sign, path and description of a change."""
    place = f"{_SIGNS[one.kind]} {one.path}"
    label = labels[one.kind == "added"].of(one.path)
    constant = _constant(one, labels)
    if constant is not None:
        return f"{place} {_cut(constant[0], full)}", constant[1]
    if one.kind == "moved":
        what = f"-> {one.path_after}"
    elif one.kind == "changed":
        what = _changed(one, labels, full)
        if one.path != one.path_after and one.path.rpartition("]")[0] != one.path_after.rpartition("]")[0]:
            what += f"  (now {one.path_after})"
    else:
        added = one.kind == "added"
        what = _short(labels[added].named(one.path, one.after if added else one.before), full)
    return place + (f" {_cut(label, full)}" if label else ""), what


def _constant(one: Difference, labels: tuple[Labels, Labels]) -> tuple[str, str] | None:
    """Return the name and statistics of a constant if its buffer differs, otherwise None."""
    at = [_BUFFER_DATA.fullmatch(path) for path in (one.path, one.path_after)]
    if at[0] is None or at[1] is None or one.kind == "moved":
        return None
    old, new = (labels[side].constant(int(match[1])) for side, match in enumerate(at) if match)
    if one.kind == "changed":
        return None if old is None or new is None else (old[0].name, change_statistics(old, new))
    known = new if one.kind == "added" else old
    return None if known is None else (known[0].name, statistics(*known))


def _changed(one: Difference, labels: tuple[Labels, Labels], full: bool) -> str:
    if one.path.endswith(".origin"):
        old, new = (Counter(side or ()) for side in (one.before, one.after))
        gained, lost = sorted((new - old).elements()), sorted((old - new).elements())
        return _cut(" ".join((*(f"+{name}" for name in gained), *(f"-{name}" for name in lost))), full)
    names = labels[0].meant(one.path, one.before), labels[1].meant(one.path_after, one.after)
    values = labels[0].named(one.path, one.before), labels[1].named(one.path_after, one.after)
    sides = zip(values, names, strict=True)
    shown = [f"{_short(value, full)} {_cut(name, full)}".rstrip() for value, name in sides]
    is_same = isinstance(one.before, int) and shown[0] == shown[1]  # the index refers to something else
    return " -> ".join(shown) + " (a different one)" * is_same


def _short(value: Any, full: bool) -> str:
    if value is None:
        return "(absent)"
    if isinstance(value, dict):
        return _cut(", ".join(f"{name} {_plain(inner)}" for name, inner in value.items()) or "(empty)", full)
    return _cut(_plain(value), full)


def _plain(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name} {_plain(inner)}" for name, inner in value.items()) + "}"
    return value if isinstance(value, str) and value else json.dumps(value, ensure_ascii=False)


def _cut(words: str, full: bool) -> str:
    return words if full or len(words) <= _VALUE_CHARACTERS else f"{words[: _VALUE_CHARACTERS - 1]}…"


class Labels:
    """Labels what a path refers to: an operator by code and first output, a tensor or operator code by name."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._charge = model.wire.budget.tally("the names that are shown")

    def of(self, path: str) -> str:
        """Return the label, or "" if there is none."""
        found = _OBJECT.match(path)
        if found is None:
            code = _CODE.match(path)
            return self._model.operator_codes[int(code[1])].name if code else ""
        subgraph, index = int(found[1]), int(found[3])
        if found[2] == "tensors":
            return self._tensor(subgraph, index)
        try:
            operator = self._model.subgraphs[subgraph].operators[index]
        except ModelFormatError:  # the operator's code does not exist
            return ""
        first = self._tensor(subgraph, operator.outputs[0]) if operator.outputs else ""
        return f"{operator.code.name} {first}".rstrip()

    def constant(self, buffer: int) -> tuple[Tensor, int] | None:
        """Return the first tensor that uses a buffer, and the size of the buffer."""
        tensor = tensor_with(self._model, buffer) if 0 < buffer < len(self._model.buffers) else None
        if tensor is None:
            return None
        self._charge(len(tensor.name))
        return tensor, self._model.buffers.place(buffer)[1]

    def meant(self, path: str, value: Any) -> str:
        """Return the name of what an index refers to; "" if `path` is not an index, or the index is out of range."""
        if not isinstance(value, int):
            return ""
        if path.endswith(".opcode_index"):
            codes = self._model.operator_codes
            return codes[value].name if value < len(codes) else ""
        if _BUFFER_INDEX.fullmatch(path):
            return self._buffer(value)
        found, signature = _TENSOR_INDEX.fullmatch(path), _SIGNATURE_INDEX.fullmatch(path)
        if found is not None:
            return self._tensor(int(found[1]), value)
        return "" if signature is None else self._tensor(self._model.signatures[int(signature[1])].subgraph, value)

    def named(self, path: str, value: Any) -> Any:
        """Return a value, or the fields of a table, with enum names in place of numbers."""
        if isinstance(value, dict):
            return {name: self.named(f"{path}.{name}", inner) for name, inner in value.items()}
        members = self._model.schema.enums.get(enum_of(path), {})
        return members.get(value, value) if isinstance(value, int) else value

    def _buffer(self, index: int) -> str:
        """Return the metadata entry that uses a buffer, or the buffer's length."""
        buffers = self._model.buffers
        if not 0 <= index < len(buffers):
            return "(does not exist)"
        name = self._entries.get(index, "")
        self._charge(len(name))
        if name or buffers.external[index]:
            return name or "(after the model)"
        return f"({counted(int(buffers.data.count[index]), 'byte')})"

    @cached_property
    def _entries(self) -> dict[int, str]:
        """The name of the first metadata entry that uses each buffer."""
        return {entry.buffer: entry.name for entry in reversed(self._model.metadata)}

    def _tensor(self, subgraph: int, index: int) -> str:
        columns = self._model.tensor_columns
        if not (0 <= subgraph < len(columns.splits) - 1 and 0 <= index < np.diff(columns.splits)[subgraph]):
            return ""
        raw = columns.names[int(columns.splits[subgraph]) + index]
        self._charge(len(raw))
        return text(raw)
