"""The compact command, and code shared by commands that write a changed model."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import circletools as ct

from ..console.progress import of_bytes
from ..console.reading import reading
from ..console.terminal import print_message, print_notes
from ..signature import option
from .parameters import InPlace, Input, Output


def target(source: str, output: str | None, in_place: bool) -> str:
    """Return where to write. Raises UsageError if that is unclear, or if binary data would go to a terminal."""
    if output is None:
        if not in_place:
            raise ct.UsageError("no output file", hint="name one, or use --in-place")
        output = source
        if source == "-":
            raise ct.UsageError("standard input cannot be overwritten", hint="name an output file")
        if os.path.exists(source) and not os.path.isfile(source):  # opening a pipe would block until it has a writer
            raise ct.UsageError("only a regular file can be overwritten", location=source, hint="name an output file")
    elif in_place and not ct.files.same_file(source, output):
        raise ct.UsageError("--in-place overwrites IN, but OUT is another file", hint="leave out one of the two")
    if is_member(output):
        hint = "write to a file, and then use `circletool replace`"
        raise ct.UsageError("a model in a bundle cannot be overwritten", location=output, hint=hint)
    if output == "-" and sys.stdout is not None and sys.stdout.isatty():
        raise ct.UsageError(
            "the output is binary, and standard output is a terminal", hint="name a file, or use a pipe"
        )
    return output


def is_member(name: str) -> bool:
    """Return whether a name refers to a model in a bundle, such as face.task!face.tflite."""
    return "!" in name and not Path(name).exists() and Path(name.partition("!")[0]).is_file()


def refuse_inputs(output: str, inputs: Iterable[str | Path | None]) -> None:
    """Raise UsageError if the output is one of the inputs."""
    for name in inputs:
        if name is not None and str(name) != "-" and ct.files.same_file(name, output):
            raise ct.UsageError("the output is also an input", location=output, hint="name another file")


def rewrite(
    source: str,
    output: str | None,
    in_place: bool,
    change: Callable[[ct.ModelEdit], ct.types.RewriteResult],
    *,
    inputs: Iterable[str | Path | None] = (),
    dry: bool = False,
    erase: bool | None = None,
    rewires: bool = False,
) -> ct.types.RewriteResult:
    """Apply `change` to a model and write it; list the changes on standard error.

    With `rewires`, reports the findings of `check` that only the new file has, if the output is a regular file.
    `erase` removes old values of metadata; with False, old values that remain are reported; with None, they are not.

    `inputs` are the other input files; the output must not be one of them. A `dry` run writes nothing and needs no
    output, but fails if writing would fail.
    """
    to = None if dry and output is None and not in_place else target(source, output, in_place)
    if to is not None:
        refuse_inputs(to, inputs)
    with reading(source) as model:
        edit = ct.edit(model)
        result = change(edit)
        if to is not None and not dry:
            edit.save(to, in_place=in_place, erase=bool(erase), progress=of_bytes)
        else:
            if to is not None:
                edit.check_target(to, in_place=in_place)
            edit.parts()  # raises an error if writing would
        remaining = edit.remaining() if erase is False else ()
        caused = new_findings(model, to) if rewires and not dry else ()
    print_result(result, source)
    print_notes(remaining, source)
    print_notes(caused, to or "")
    return result


def print_result(result: ct.types.RewriteResult, source: str = "") -> None:
    """List the changes, and then the notes, on standard error."""
    for line in result.changes or ("nothing to change",):
        print_message(line)
    print_notes(result.notes, source)


def new_findings(model: ct.Model, to: str | None) -> tuple[ct.Finding, ...]:
    """Return the findings that concern the written model but not the original.

    Returns nothing if the output is not a file or exceeds the budget for checking; the file is kept in either case.
    """
    if to is None or to == "-" or not Path(to).is_file():
        return ()
    try:
        with ct.open(to) as written:
            return ct.checks.newly_found(model, written)
    except ct.CircleToolsError:
        return ()


def _without_names(model: ct.Model, to: str, in_place: bool) -> ct.Model:
    """Return the model without the names of tensors."""
    with ct.edit(model) as edit:
        edit.check_target(to, in_place=in_place)
        for line in ct.surgery.strip_names(edit).changes:
            print_message(line)
        return ct.open(edit.to_bytes())


def compact(
    source: Input,
    output: Output = None,
    prune: Annotated[
        bool, option("--prune", "Also drop unused tensors, buffers, operator codes and subgraphs.")
    ] = False,
    outputs: Annotated[bool, option("--outputs", "With --prune, also drop operators that no output needs.")] = False,
    strip_names: Annotated[
        bool, option("--strip-names", "Also drop tensor names; signatures keep their names.")
    ] = False,
    in_place: InPlace = False,
) -> None:
    """Write a minimal file without unused bytes.

    Writes equal values only once. Keeps external data and bytes after the flatbuffer (an archive of associated
    files). With --prune, the remaining objects are renumbered; docs/surgery.md gives the rules.
    """
    if outputs and not prune:
        raise ct.UsageError("--outputs requires --prune", hint="use both")
    to = target(source, output, in_place)
    with (
        reading(source) as model,
        _without_names(model, to, in_place) if strip_names else nullcontext(model) as named,
    ):
        if prune:
            pruned = ct.surgery.prune(named, to, outputs=outputs, in_place=in_place, progress=of_bytes)
            sizes = f"{named.wire.size} -> ", f"{model.wire.size} -> "
            result = ct.types.RewriteResult(tuple(line.replace(*sizes) for line in pruned.changes), pruned.notes)
        else:
            after = ct.compact(named, to, in_place=in_place, progress=of_bytes)
            result = ct.types.RewriteResult((f"{model.wire.size} -> {after} bytes",))
    print_result(result, source)
