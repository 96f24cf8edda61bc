"""The origins commands: embed-origins, dump-origins and track-origins."""

from __future__ import annotations

import json
import os
import re
from functools import partial
from pathlib import Path
from typing import Literal

from typer import Exit

import circletools as ct

from ..console import bounds
from ..console.captured import read_text, reading
from ..console.terminal import print_message, print_notes, show, show_as, show_json
from ..signature import argument, option
from .parameters import DryRun, Erase, Form, InPlace, Input, Output, Stamp, refuse_mixing
from .rewriting import rewrite


def embed_origins(
    source: Input,
    output: Output = None,
    origins: Path | None = option("A JSON or CSV file of sources and operators."),
    names: Literal["auto", "tensor-names", "debug-metadata", "output"] | None = option(
        "Where to take source names from; by default auto, the best names in the model."
    ),
    exported_program: Path | None = option(
        "The model's exported program (.pt2), without lines of helper functions; runs the exporter again.", "FILE"
    ),
    onnx: Path | None = option("The model's ONNX file, written by torch.onnx.", "FILE"),
    replace: bool = option("Replace existing origin tables."),
    erase: Erase = False,
    stamp: Stamp = True,
    absolute_paths: bool = option("Write absolute paths instead of paths relative to the working directory."),
    in_place: InPlace = False,
) -> None:
    """Write the source of each operator to the metadata.

    The ONE compiler keeps this metadata up to date. By default, takes sources from the exporter's information in the
    model: source locations, or names of modules and nodes.
    """
    ways = {"--origins": origins, "--exported-program": exported_program, "--onnx": onnx, "--names": names}
    used = [name for name, value in ways.items() if value is not None]
    if len(used) > 1:
        raise ct.UsageError(f"{' and '.join(used)} cannot be combined: each determines the sources")
    given = None if origins is None else ct.origins.parse(read_text(origins), str(origins))
    if absolute_paths and given is not None and not any(os.path.isabs(one.file) for one in given.details.values()):
        raise ct.UsageError(f"{origins} has no absolute paths", hint="record them with `record(absolute_paths=True)`")
    write = partial(ct.origins.embed, replace=replace, stamp=stamp, absolute_paths=absolute_paths)

    def change(edit: ct.ModelEdit) -> ct.types.RewriteResult:
        if exported_program is not None:
            bounds.stop()  # the exporter runs in this process
            return write(edit, ct.exporters.from_exported_program(edit.model, exported_program))
        if onnx is not None:
            return write(edit, ct.exporters.from_onnx(edit.model, onnx))
        return write(edit, given, names=ct.origins.NameSource(names or "auto"))

    rewrite(source, output, in_place, change, inputs=[origins, exported_program, onnx], erase=erase)


def dump_origins(
    source: Input,
    form: Literal["text", "json", "csv", "tree"] = option("Output format.", default="text"),
    depth: int | None = option("In a tree, truncate module paths to their first N components.", "N", min=1),
    operators: str | None = option("Operators to show, such as 0-10,15.", "RANGES"),
    source_name: str | None = option("Show only sources whose names match.", "REGEX", names="--source"),
    subgraph: int | None = option("Show only this subgraph.", "N", min=0),
    tables: Path | None = option("Write the tables to DIR instead, as .bin files and origins.json.", "DIR"),
) -> None:
    """Show each operator's sources and each source's operators.

    Exits with status 1 if the model has no origins, or if they no longer describe its operators. `embed-origins
    --origins` reads the JSON and the CSV.
    """
    if depth is not None and form != "tree":
        raise ct.UsageError("--depth requires --format tree")
    selection = ct.origins.Selection.parse(operators, source_name, subgraph)
    with reading(source) as model:
        if tables is not None:
            if form != "text" or selection != ct.origins.Selection():
                raise ct.UsageError("--tables writes all tables unchanged", hint="leave out the other options")
            table = _write_tables(model, tables)
        else:
            table = ct.origins.describe(model, selection)
            csv, text = ct.render.origins_csv_lines, ct.render.origins_text
            tree = partial(ct.render.origins_tree, depth=depth)
            show_as(form, table, text=text, json=ct.render.origins_json, csv=csv, tree=tree, file=source)
    print_notes((note for note in table.notes if tables is None or note.severity == "warning"), source)
    if not table.describes_the_model:
        raise Exit(1)


def _write_tables(model: ct.Model, directory: Path) -> ct.origins.OriginTable:
    """Write all origin tables to a directory; write nothing if there is an error or no table."""
    table = ct.origins.describe(model)
    files = {f"{name}.bin": value for name, value in ct.origins.extract(model).items()}
    if not files:
        return table
    files["origins.json"] = (json.dumps(ct.render.origins_json(table), indent=2) + "\n").encode()
    for name in files:
        if model.source.path is not None and ct.files.same_file(model.source.path, directory / name):
            path = str(directory / name)
            raise ct.UsageError("this would overwrite the input", location=path, hint="name another DIR")
    written = ((name, [value]) for name, value in files.items())
    ours = re.compile(r"origins\.json|(ONE|CIRCLETOOLS)_\w+\.bin")
    ct.files.write_directory(
        directory,
        written,
        lambda there: all(ours.fullmatch(path.name) for path in there.iterdir()),  # an earlier dump
        model.source.check_unchanged,
    )
    for name, value in files.items():
        print_message(f"{directory / name}: {len(value)} bytes")
    return table


def track_origins(
    before: str = argument("BEFORE", "The model that the tool read, or - for standard input."),
    after: str = argument("AFTER", "The model that the tool wrote, or -; with --tag, the file to write."),
    output: str | None = argument("OUT", "The file to write, or - for standard output.", default=None),
    min_confidence: float = option("Leave out origins with a lower confidence.", "X", default=0.25, min=0.0, max=1.0),
    replace: bool = option("Replace origins in AFTER that differ from those in BEFORE."),
    erase: Erase = False,
    stamp: Stamp = True,
    strict: bool = option("Exit with status 1 if an operator has no origin."),
    tag: bool = option("Write BEFORE to AFTER with tags as tensor names, for a tool that keeps names."),
    in_place: bool = option("Overwrite AFTER."),
    dry_run: DryRun = False,
    form: Form = "text",
) -> None:
    """Carry origins across a tool that drops them.

    AFTER is the model that an optimizer, quantizer or converter made from BEFORE. Its operators get the origins of
    BEFORE, and OUT is a copy of AFTER with these origins. Each origin is shown with its evidence and confidence;
    docs/tracking.md explains both. If BEFORE has no origins, its operators are the sources.

    With --tag, nothing is tracked: AFTER becomes a copy of BEFORE in which tensors are named after their operators.
    Run the tool on this file, then track its result: origins are exact if the tool kept the names, and OUT has the
    original names again.
    """
    if tag:
        if output is not None or in_place or form == "json" or replace or strict:
            raise ct.UsageError("--tag only copies BEFORE to AFTER", hint="leave out OUT and the other options")
        rewrite(before, after, False, ct.origins.tag, dry=dry_run)
        return
    if before == after == "-":
        raise ct.UsageError("BEFORE and AFTER cannot both come from standard input")
    to_stdout = output == "-" and not dry_run
    if form == "json" and not dry_run:
        refuse_mixing("--json", output, "name a file, or leave out --json")
    notes: list[ct.Finding] = []
    with reading(before) as old:

        def change(edit: ct.ModelEdit) -> ct.types.RewriteResult:
            found = ct.track_origins(old, edit.model, min_confidence=min_confidence)
            result = ct.origins.embed(edit, found.origins, replace=replace or found.carried, stamp=stamp)
            names = ct.origins.untag(edit, old)
            old.source.check_unchanged()
            if form == "json":
                show_json(ct.render.tracking_json(found), after)
            elif not to_stdout:
                show(ct.render.tracking_text(found))
            notes.extend(found.notes)
            return ct.types.RewriteResult((*result.changes, *names.changes), result.notes)

        rewrite(after, output, in_place, change, inputs=[before], dry=dry_run, erase=erase)
    print_notes(notes, after)
    if any(strict or note.severity == "warning" for note in notes):
        raise Exit(1)
