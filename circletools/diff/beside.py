"""Compare everything outside the models' own tables: format, trailing bytes, metadata, affinity and origins.

A table that cannot be decoded counts as missing.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping
from hashlib import blake2b
from typing import Any, NamedTuple, TypeVar

import numpy as np

from circletools.affinity.tables import NONE, Affinity, check_freshness, read_affinity
from circletools.diff.alignment import Indices
from circletools.diff.comparison import ModelComparison
from circletools.edit.members import original_start
from circletools.errors import InvalidInputError, ModelFormatError, TableFormatError
from circletools.findings import Finding
from circletools.flatbuf.columns import Wire
from circletools.flatbuf.comparison import Difference, Kind, same_bytes
from circletools.flatbuf.verify import walk
from circletools.metadata.stamp import Freshness
from circletools.model.bundles import archive_files
from circletools.model.digests import metadata_labels
from circletools.model.external import external_data
from circletools.model.model import Model
from circletools.origin.read import Origins, read_origins
from circletools.origin.read import check_freshness as origins_freshness
from circletools.storage.zips import directory_start
from circletools.wording import ranges

T = TypeVar("T")


def read_or_note(read: Callable[[Model], T | None], model: Model, what: str, notes: list[Finding]) -> T | None:
    """Return the result of `read`; if it fails, add a note and return None."""
    try:
        return read(model)
    except TableFormatError as error:
        message = f"{model.source.name}: the {what} table was ignored, because it cannot be decoded: {error}"
        notes.append(Finding("MALFORMED_TABLE", "info", "", message))
        return None


def between(path: str | tuple[str, str], old: Any, new: Any) -> Difference:
    """Return the difference between two values; None means no value. `path` is one path or one for each model."""
    kind: Kind = "added" if old is None else "removed" if new is None else "changed"
    return Difference(kind, *((path, path) if isinstance(path, str) else path), old, new)


def freshness_of(check: Callable[[Model, T], Freshness], model: Model, tables: T) -> str:
    """Return the state found by `check`; `unknown` if a stamp or the operators' names cannot be decoded."""
    try:
        return check(model, tables).state
    except InvalidInputError:
        return "unknown"


# --- compare two models outside their flatbuffers: the format and the trailing bytes, often a ZIP archive -----


_Members = dict[str, dict[str, Any]]


def file_differences(comparison: ModelComparison, _: list[Finding]) -> Iterator[Difference]:
    """Yield differences in the format, in the files of an archive (by length and CRC), or in other trailing bytes."""
    models = comparison.before, comparison.after
    if models[0].format != models[1].format:
        yield between("format", models[0].format, models[1].format)
    behind = [model.wire.memory[_end(model) :] for model in models]
    archives = [_members(model, data) for model, data in zip(models, behind, strict=True)]
    if archives[0] is None and archives[1] is None:
        old, new = (bytes_ if any(bytes_) else bytes_[:0] for bytes_ in behind)
        if not same_bytes(old, new):
            yield between("trailing_bytes", {"bytes": len(old)}, {"bytes": len(new)})
        return
    first, second = (members or {} for members in archives)
    for name in dict.fromkeys((*first, *second)):
        if first.get(name) != second.get(name):
            yield between(f"archive[{name}]", first.get(name), second.get(name))


def _end(model: Model) -> int:
    """Return the end of the model, including unused data that an edit left at the end of its original file."""
    ends = [model.reachable.end, *(int((data.offsets + data.sizes).max()) for data in external_data(model))]
    base = original_start(model)
    if base:
        ends.append(base + walk(Wire(model.wire.memory[base:]), model.schema).end)
    return min(max(ends), model.wire.size)


def _members(model: Model, behind: memoryview) -> _Members | None:
    """Return the files of the archive that follows the model, or None if there is no readable archive."""
    if directory_start(behind) is None:
        return None
    memory, charge, found = model.wire.memory, model.wire.budget.tally("the files of the archive"), _Members()
    try:
        for file, record in archive_files(memory):
            charge(file.end - file.start)
            crc = zlib.crc32(memory[file.start : file.end])  # the CRC in its record may be false
            found[file.name] = {"bytes": file.end - file.start, "crc32": f"{crc:08x}"}
            if (method := memory[file.head + 8 : file.head + 10]) != record[10:12]:
                found[file.name]["method"] = int.from_bytes(method, "little")
    except ModelFormatError:
        return None
    return found


# --- compare metadata entries of two models by name and value -------------------------------------------------


_SHOWN_BYTES = 64


def metadata_differences(comparison: ModelComparison, _: list[Finding]) -> Iterator[Difference]:
    """Yield the entries that only one model has, and entries with different values.

    Entries with the same name are matched in order; see `metadata_labels`.
    """
    before, after = _entries(comparison.before), _entries(comparison.after)
    for label in dict.fromkeys((*before, *after)):
        old, new = before.get(label), after.get(label)
        if old is None or new is None or (old.digest, old.is_outside) != (new.digest, new.is_outside):
            shown = (None if value is None else _described(value) for value in (old, new))
            yield between(f"metadata[{label}]", *shown)


class _Value(NamedTuple):
    """The value of an entry and its digest, or the index of a buffer that does not exist.

    The readers of TFLite and MediaPipe ignore values outside the flatbuffer.
    """

    data: memoryview | int
    digest: str = ""
    is_outside: bool = False


def _entries(model: Model) -> dict[str, _Value]:
    """Return the value of each entry; shared data is read once."""
    entries: dict[str, _Value] = {}
    values: dict[tuple[int, int, bool], _Value] = {}
    for label, entry in metadata_labels(model):
        if entry.buffer >= len(model.buffers):
            entries[label] = _Value(entry.buffer)
            continue
        buffer = model.buffers[entry.buffer]
        place = *model.buffers.place(entry.buffer), buffer.external
        if place not in values:
            values[place] = _Value(buffer.data, blake2b(buffer.data, digest_size=16).hexdigest(), buffer.external)
        entries[label] = values[place]
    return entries


def _described(found: _Value) -> dict[str, Any]:
    """Return a summary of a value: its length, its digest and, if it is short, its text."""
    value = found.data
    if isinstance(value, int):
        return {"missing_buffer": value}
    shown: dict[str, Any] = {"bytes": len(value)}
    if len(value) <= _SHOWN_BYTES and bytes(value).rstrip(b"\0").decode("utf-8", "replace").isprintable():
        shown["text"] = bytes(value).rstrip(b"\0").decode("utf-8", "surrogateescape")
    return shown | {"blake2b": found.digest} | ({"outside": True} if found.is_outside else {})


# --- compare the affinity of two models: the operators' devices, and the operators in each partition ----------


def affinity_differences(comparison: ModelComparison, notes: list[Finding]) -> Iterator[Difference]:
    """Yield the differences in affinity: devices, freshness, the device of each operator, and partitions.

    If only one model has an affinity table, that is the only difference reported.
    """
    models = comparison.before, comparison.after
    old, new = (read_or_note(read_affinity, model, "affinity", notes) for model in models)
    if old is None or new is None:
        if old is not new:
            yield between("affinity", *(None if one is None else {"devices": _devices(one)} for one in (old, new)))
        return
    states = [freshness_of(check_freshness, model, one) for model, one in zip(models, (old, new), strict=True)]
    for path, values in (("affinity.devices", [_devices(old), _devices(new)]), ("affinity.freshness", states)):
        if values[0] != values[1]:
            yield between(path, *values)
    subgraphs = comparison.subgraphs
    for row, pair in enumerate(zip(subgraphs.before.tolist(), subgraphs.after.tolist(), strict=True)):
        yield from _subgraph(comparison, old, new, row, pair)


def _devices(affinity: Affinity) -> list[str]:
    return [affinity.devices[device] for device in sorted(affinity.devices)]


def _subgraph(
    comparison: ModelComparison, old: Affinity, new: Affinity, row: int, pair: tuple[int, int]
) -> Iterator[Difference]:
    operators = comparison.operators
    first, end = np.searchsorted(operators.rows, [row, row + 1]).tolist()
    before, after = operators.before[first:end], operators.after[first:end]
    devices = _device_ids(old, pair[0], before), _device_ids(new, pair[1], after)
    other = devices[0] != devices[1] if old.devices == new.devices else np.ones(len(before), np.bool_)
    for index in np.flatnonzero(other).tolist():
        names = [one.devices.get(int(ids[index])) for one, ids in zip((old, new), devices, strict=True)]
        if names[0] != names[1]:
            places = (pair[0], before[index]), (pair[1], after[index])
            paths = (f"subgraphs[{subgraph}].operators[{operator}].device" for subgraph, operator in places)
            yield Difference("changed", *paths, *names)
    ours = _partitions(old, pair[0], None)
    theirs = _partitions(new, pair[1], dict(zip(after.tolist(), before.tolist(), strict=True)))
    for least in sorted(ours.keys() | theirs.keys()):
        found = [side.get(least, (None, None, None)) for side in (ours, theirs)]
        if found[0][1] != found[1][1]:
            known = [f"subgraphs[{at}].partitions[{one[0]}]" for at, one in zip(pair, found, strict=True) if one[2]]
            yield between((known[0], known[-1]), *(one[2] for one in found))


def _device_ids(affinity: Affinity, subgraph: int, operators: Indices) -> Indices:
    """Return the device id of each operator; NONE for operators missing from the table, which may be stale."""
    ids = np.full(len(operators), NONE, np.int64)
    if subgraph in affinity.subgraphs:
        known = affinity.subgraphs[subgraph].devices
        ids[operators < len(known)] = known[operators[operators < len(known)]]
    return ids


def _partitions(affinity: Affinity, subgraph: int, partner: Mapping[int, int] | None) -> dict[int, Any]:
    """Return each partition's number, identity and description, keyed by its lowest operator in the first model."""
    if subgraph not in affinity.subgraphs:
        return {}
    known, found = affinity.subgraphs[subgraph], {}
    for number in np.unique(known.partitions[known.partitions != NONE]).tolist():
        own = np.flatnonzero(known.partitions == number).tolist()
        members = {one if partner is None else partner.get(one, -1 - one) for one in own}  # negative: a new operator
        device = affinity.devices.get(int(known.devices[own[0]]))
        shown = {"device": device, "operators": ranges(own)}
        found[min(members, key=lambda one: (one < 0, one))] = number, (device, members), shown
    return found


# --- compare the origins of two models: the sources that each operator gained and lost, by name ---------------


def origin_differences(comparison: ModelComparison, notes: list[Finding]) -> Iterator[Difference]:
    """Yield the differences in origins: sources by id, then the names of each operator's sources.

    If only one model has origins, that is the only difference reported. A table that cannot be decoded counts as
    missing, but its bytes are compared as those of a metadata entry.
    """
    models = comparison.before, comparison.after
    old, new = (read_or_note(read_origins, model, "origins", notes) for model in models)
    if old is None or new is None:
        if old is not new:
            sizes = (
                one and {"sources": len(one.sources), "operators": sum(map(len, one.operators))} for one in (old, new)
            )
            yield between("origins", *sizes)
        return
    states = [freshness_of(origins_freshness, model, one) for model, one in zip(models, (old, new), strict=True)]
    if states[0] != states[1]:
        yield between("origins.freshness", *states)
    for source in sorted(old.sources.keys() | new.sources.keys()):
        names = old.sources.get(source), new.sources.get(source)
        if names[0] != names[1]:
            yield between(f"origins.sources[{source}]", *names)
    yield from _operators(comparison, old, new)


def _operators(comparison: ModelComparison, old: Origins, new: Origins) -> Iterator[Difference]:
    found, subgraphs = comparison.operators, comparison.subgraphs
    same_names = old.sources == new.sources
    columns = subgraphs.before[found.rows], found.before, subgraphs.after[found.rows], found.after
    for ours, before, theirs, after in zip(*(column.tolist() for column in columns), strict=True):
        if same_names and old.of(ours, before) == new.of(theirs, after):
            continue
        names = _names(old, ours, before), _names(new, theirs, after)
        if names[0] != names[1]:
            yield between((_path(ours, before), _path(theirs, after)), *names)
    for one, graphs, which in ((old, subgraphs.before, found.removed), (new, subgraphs.after, found.added)):
        for subgraph, operator in zip(graphs[which[0]].tolist(), which[1].tolist(), strict=True):
            if listed := _names(one, subgraph, operator):
                yield between(_path(subgraph, operator), *((listed, None) if one is old else (None, listed)))


def _names(origins: Origins, subgraph: int, operator: int) -> list[str]:
    return sorted(origins.sources[source] for source in origins.of(subgraph, operator))


def _path(subgraph: int, operator: int) -> str:
    return f"subgraphs[{subgraph}].operators[{operator}].origin"
