"""The commands fix-outputs, repair, set-shape and compact, and code shared by all that write a changed model."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Literal

import circletools as ct

from ..console.captured import reading
from ..console.progress import of_bytes
from ..console.terminal import print_diagnostic, print_message, print_notes, show_bytes, show_json
from ..signature import option
from .parameters import DryRun, Form, InPlace, Input, OneSubgraph, Output, With, listed, refuse_mixing


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
    if {(own := Path(source).suffix), Path(output).suffix} == {".tflite", ".circle"}:
        print_diagnostic("warning", f"{output}: this is a {own[1:]} model; circletools does not convert formats")
    return output


def is_member(name: str) -> bool:
    """Return whether a name refers to a model in a bundle, such as face.task!face.tflite."""
    return "!" in name and not Path(name).exists() and Path(name.partition("!")[0]).is_file()


def check_output(output: str | None, inputs: Iterable[str | Path | None]) -> None:
    """Raise UsageError if the output, if any, is one of the inputs, and the errors of `ct.files.check_target`."""
    for name in inputs if output is not None else ():
        if name is not None and str(name) != "-" and ct.files.same_file(name, str(output)):
            raise ct.UsageError("the output is also an input", location=output, hint="name another file")
    if output is not None:
        ct.files.check_target(output)


def write_or_show(output: str | None, data: bytes) -> None:
    """Write data to a file or, without one, to standard output."""
    if output is None or output == "-":
        show_bytes(data)
    else:
        ct.files.write(output, [data])


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
    check_output(to, inputs)
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
    prune: bool = option("Also drop unused tensors, buffers, operator codes and subgraphs."),
    outputs: bool = option("With --prune, also drop operators that no output needs."),
    strip_names: bool = option("Also drop tensor names; signatures keep their names."),
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


def fix_outputs(
    source: Input,
    output: Output = None,
    subgraph: str = option(
        "Subgraphs to fix; entry: the main one and those with signatures.", "entry|all|N", default="entry"
    ),
    copy_operator: Literal["auto", "transpose", "reshape", "concatenation"] = option(
        "The operator that makes the copies.", default="auto"
    ),
    runtime: Literal["auto", "litert", "onert", "both", "vela"] = option(
        "The runtime in which copies must be exact; auto means the format's runtime.", default="auto"
    ),
    keep_constants: bool = option("Copy a constant only if the outputs list it more than once."),
    detach_taps: bool = option("Also copy outputs that an operator reads."),
    with_: With = (),
    in_place: InPlace = False,
    dry_run: DryRun = False,
    form: Form = "text",
) -> None:
    """Give every output of a model its own tensor.

    Copies outputs that are constants, inputs or duplicates, with an operator that copies exactly in the format's
    runtime: LiteRT for .tflite (also onert if possible), onert for .circle. Run this after all optimizers, since some
    remove operators that only copy. With --with, if a program accepted the model but not the result, the next copy
    operator is tried. docs/outputs.md gives the rules.
    """
    if form == "json" and not dry_run:
        refuse_mixing("--json", output, "name a file, or leave out --json")

    change = partial(
        ct.outputs.fix,
        subgraphs=subgraph,
        copy_operator=copy_operator,
        runtime=runtime,
        keep_constants=keep_constants,
        detach_taps=detach_taps,
        with_=listed(with_),
    )
    result = rewrite(source, output, in_place, change, dry=dry_run, rewires=True)
    if form == "json":
        show_json(ct.render.rewrite_json(result), source)


def repair(
    source: Input,
    output: Output = None,
    only: tuple[str, ...] = option("Fix findings with this code; may be repeated.", "CODE"),
    with_: With = (),
    in_place: InPlace = False,
    dry_run: DryRun = False,
) -> None:
    """Fix findings that have exactly one remedy.

    By default, fixes findings that make programs refuse a model; with --only, those with the given codes instead.
    With --with, programs that accepted the model must also accept the result. docs/findings.md lists the codes.
    """
    change = partial(ct.surgery.repair, only=only, with_=listed(with_))
    rewrite(source, output, in_place, change, dry=dry_run, rewires=True)


def set_shape(
    source: Input,
    output: Output = None,
    inputs: tuple[str, ...] = option(
        "The shape of an input, such as image=1,224,224,3.", "NAME=DIMS", names="--input"
    ),
    batch: int | None = option("The first dimension of every input.", "N", min=1),
    static: bool = option("Fix dynamic dimensions at their sizes in the file."),
    dynamic_batch: bool = option("Make the first dimension dynamic."),
    mend: bool = option("Also change constants that contain the batch size."),
    subgraph: OneSubgraph = 0,
    in_place: InPlace = False,
) -> None:
    """Change the shapes or the batch size of inputs.

    Computes all other shapes as LiteRT's resize_tensor_input does; if an operator cannot be resized, the error names
    it. NAME is a name in a signature, a tensor name or a position. docs/surgery.md gives the rules.
    """
    request = ct.surgery.ShapeRequest(inputs, batch, static, dynamic_batch, mend, subgraph)
    rewrite(source, output, in_place, lambda edit: ct.surgery.set_shape(edit, request), rewires=True)
