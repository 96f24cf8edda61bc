"""The origins commands: embed-origins and dump-origins."""

from __future__ import annotations

import json as json_module
import os
import re
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

from typer import Exit

import circletools as ct

from ..console import bounds
from ..console.reading import read_text, reading
from ..console.terminal import print_message, print_notes, show_as
from ..signature import option
from .parameters import FORMAT, Erase, InPlace, Input, Output, Stamp
from .rewriting import rewrite


def embed_origins(
    source: Input,
    output: Output = None,
    origins: Annotated[Path | None, option("--origins", "A JSON or CSV file of sources and operators.")] = None,
    names: Annotated[
        Literal["auto", "tensor-names", "debug-metadata", "output"] | None,
        option("--names", "Where to take source names from; by default auto, the best names in the model."),
    ] = None,
    exported_program: Annotated[
        Path | None,
        option("--exported-program", "The model's exported program (.pt2); runs the exporter again.", "FILE"),
    ] = None,
    onnx: Annotated[Path | None, option("--onnx", "The model's ONNX file, written by torch.onnx.", "FILE")] = None,
    replace: Annotated[bool, option("--replace", "Replace existing origin tables.")] = False,
    erase: Erase = False,
    stamp: Stamp = True,
    absolute_paths: Annotated[
        bool, option("--absolute-paths", "Write absolute paths instead of paths relative to the working directory.")
    ] = False,
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
        if given is None:
            return write(edit, names=ct.origins.NameSource(names or "auto"))
        try:
            return write(edit, given)
        except ct.UsageError as error:
            error.name_file(str(origins))
            raise

    rewrite(source, output, in_place, change, inputs=[origins, exported_program, onnx], erase=erase)


def dump_origins(
    source: Input,
    form: Annotated[Literal["text", "json", "csv", "tree"], FORMAT] = "text",
    depth: Annotated[
        int | None, option("--depth", "In a tree, truncate module paths to their first N components.", "N", min=1)
    ] = None,
    operators: Annotated[str | None, option("--operators", "Operators to show: 0-10,15.", "RANGES")] = None,
    source_name: Annotated[str | None, option("--source", "Show only sources whose names match.", "REGEX")] = None,
    subgraph: Annotated[int | None, option("--subgraph", "Show only this subgraph.", "N", min=0)] = None,
    tables: Annotated[
        Path | None, option("--tables", "Write the tables to DIR instead, as .bin files and origins.json.", "DIR")
    ] = None,
) -> None:
    """Show the sources of each operator and vice versa.

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
            csv, text = ct.render.origins_csv, ct.render.origins_text
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
    files["origins.json"] = (json_module.dumps(ct.render.origins_json(table), indent=2) + "\n").encode()
    for name in files:
        if model.source.path is not None and ct.files.same_file(model.source.path, directory / name):
            path = str(directory / name)
            raise ct.UsageError("this would overwrite the input", location=path, hint="name another DIR")
    written = ((name, [value]) for name, value in files.items())
    ct.files.write_directory(directory, written, _is_dump, model.source.check_unchanged)
    for name, value in files.items():
        print_message(f"{directory / name}: {len(value)} bytes")
    return table


def _is_dump(directory: Path) -> bool:
    """Return whether a directory contains only files from an earlier dump."""
    names = [path.name for path in directory.iterdir()]
    return all(re.fullmatch(r"origins\.json|(ONE|CIRCLETOOLS)_\w+\.bin", name) for name in names)
