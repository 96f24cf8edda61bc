"""The signatures of a cut: those of the subgraph with the same inputs and outputs, or else a new one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import count

from circletools.edit.extract import NewSignature
from circletools.findings import Finding
from circletools.model.model import Model
from circletools.model.views import Signature
from circletools.surgery.cut import Cut
from circletools.surgery.tensors import quoted

DEFAULT_KEY = "serving_default"


def signatures_of(model: Model, cut: Cut) -> tuple[list[int | NewSignature], list[Finding]]:
    """Return the signatures of a cut, and notes of those that are left out."""
    of_it = [one for one in model.signatures if one.subgraph == cut.subgraph]
    ends = set(cut.inputs), set(cut.outputs)
    same = [one for one in of_it if ({at for _, at in one.inputs}, {at for _, at in one.outputs}) == ends]
    notes = [
        Finding(
            "SIGNATURE_LEFT_OUT", "info", f"signatures[{one.index}]",
            f"signature {quoted(one.key)} is left out: its inputs and outputs are not those of the cut",
        )
        for one in model.signatures
        if one not in same
    ]  # fmt: skip
    if same:
        return [one.index for one in same], notes
    key = of_it[0].key if of_it else DEFAULT_KEY
    inputs, outputs = (_named(model, cut, of_it, side) for side in ("inputs", "outputs"))
    return [NewSignature(_bytes(key), cut.subgraph, inputs, outputs)], notes


def _named(model: Model, cut: Cut, signatures: Sequence[Signature], side: str) -> list[tuple[bytes, int]]:
    """Name tensors as signatures do, else as tensors are called, else by their position; no name stands twice."""
    tensors = cut.inputs if side == "inputs" else cut.outputs
    known: dict[int, str] = {}
    for one in signatures:
        for name, tensor in (*(one.inputs if side == "inputs" else one.outputs), *one.inputs, *one.outputs):
            known.setdefault(tensor, name)
    views = model.subgraphs[cut.subgraph].tensors
    names = [known.get(tensor) or proper(views[tensor].name) for tensor in tensors]
    return list(zip(map(_bytes, unique_names(names, side[:-1])), tensors, strict=True))


def proper(name: str) -> str:
    """Return a name that every program can read: it must be UTF-8; else nothing."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return ""
    return name


def unique_names(names: Iterable[str], what: str) -> list[str]:
    """Return names that differ: an empty one becomes `input_0`, of equal ones the later get a number."""
    used, found = set[str](), list[str]()
    for index, name in enumerate(names):
        wanted = name or f"{what}_{index}"
        found.append(
            wanted if wanted not in used else next(n for i in count(1) if (n := f"{wanted}_{i}") not in used)
        )
        used.add(found[-1])
    return found


def _bytes(name: str) -> bytes:
    return name.encode("utf-8", "surrogateescape")
