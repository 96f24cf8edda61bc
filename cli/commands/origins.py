"""Commands for origins: embed-origins, dump-origins, extract-origins."""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from circletools.errors import UsageError

from ..console.reading import read_text
from .parameters import Directory, Format, InPlace, Input, Output
from .rewriting import rewrite

if TYPE_CHECKING:
    from circletools.edit.edit import ModelEdit
    from circletools.edit.results import RewriteResult
    from circletools.model import Model
    from circletools.origin import Freshness, Origins


class Names(StrEnum):
    """Where the names of sources come from; see circletools.origin.names."""

    OUTPUT = "output"
    TENSOR_PREFIX = "tensor-prefix"
    DEBUG_METADATA = "debug-metadata"


def embed_origins(
    source: Input,
    output: Output = None,
    origins: Annotated[
        Path | None, typer.Option("--origins", help="JSON or CSV (by its ending) with sources and operators.")
    ] = None,
    names: Annotated[
        Names | None, typer.Option("--names", help="What to name sources after; `output` unless given.")
    ] = None,
    replace: Annotated[bool, typer.Option("--replace", help="Replace tables that are there already.")] = False,
    stamp: Annotated[bool, typer.Option("--stamp/--no-stamp", help="Add the stamp that tells stale tables.")] = True,
    in_place: InPlace = False,
) -> None:
    """Write the source of each operator as metadata.

    The ONE compiler keeps it up to date. Without --origins each operator of subgraph 0 is its own source, named
    after its first output.
    """
    from circletools.origin import NameSource, collect_sources, embed  # noqa: PLC0415
    from circletools.origin.exchange import parse_origins  # noqa: PLC0415

    if origins is not None and names is not None:
        raise UsageError("--origins and --names exclude each other: the file has the names")
    given = None if origins is None else parse_origins(read_text(origins), str(origins))

    def change(edit: ModelEdit) -> RewriteResult:
        if given is None:
            chosen = collect_sources(edit.model, NameSource((names or Names.OUTPUT).value))
            return embed(edit, chosen, replace=replace, stamp=stamp)
        try:
            return embed(edit, given, replace=replace, stamp=stamp)
        except UsageError as error:
            place = str(origins) if error.location is None else f"{origins}: {error.location}"
            raise UsageError(error.message, location=place, hint=error.hint) from error

    rewrite(source, output, in_place, change, inputs=[origins])


def dump_origins(
    source: Input,
    output_format: Annotated[
        Format | None, typer.Option("--format", help="How to write it; `text` unless given.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="The same as --format json.")] = False,
    operator: Annotated[
        str | None, typer.Option("--operator", metavar="RANGES", help="Operator indices, as in 0-10,15.")
    ] = None,
    source_name: Annotated[
        str | None, typer.Option("--source", metavar="REGEX", help="Sources whose name matches.")
    ] = None,
    subgraph: Annotated[int | None, typer.Option("--subgraph", metavar="N", min=0, help="One subgraph only.")] = None,
) -> None:
    """Show the sources of each operator, and their operators.

    Exit status 1 when the model has no origins, or when they no longer describe its operators. The JSON and the
    CSV are accepted by embed-origins --origins.
    """
    from circletools.model.selectors import parse_ranges  # noqa: PLC0415
    from circletools.origin.read import Origins, check_freshness, read_origins  # noqa: PLC0415
    from circletools.render.origins import Selection, origins_csv, origins_json, origins_text  # noqa: PLC0415

    from ..console.reading import reading  # noqa: PLC0415
    from ..console.terminal import complain, show, show_json, show_text  # noqa: PLC0415

    if json and output_format not in (None, Format.JSON):
        raise UsageError(f"--json and --format {output_format} exclude each other")
    selection = Selection(None if operator is None else parse_ranges(operator), _pattern(source_name), subgraph)
    with reading(source) as model:
        origins = read_origins(model)
        freshness = None if origins is None else check_freshness(model, origins)
        found = origins or Origins({}, ())
        if json or output_format is Format.JSON:
            show_json(origins_json(model, found, freshness, selection))
        elif output_format is Format.CSV:
            show_text(origins_csv(model, found, selection))
        elif origins is not None:
            show(origins_text(model, found, selection))
        notes = [] if freshness is not None and freshness.state == "stale" else list(_gaps(model, found))
    if freshness is None:
        complain("warning", f"{source}: the model has no origins (embed-origins adds them)")
    elif freshness.state == "stale":
        complain("warning", f"{source}: the origins are stale {_place(freshness)}: {freshness.reason}")
    elif freshness.state == "unstamped":
        complain("note", f"{source}: the origins have no stamp, so nothing tells whether they are stale")
    for note in notes:
        complain("note", f"{source}: {note}")
    if freshness is None or freshness.state == "stale":
        raise typer.Exit(1)


def _gaps(model: Model, origins: Origins) -> Iterator[str]:
    """Yield what a reader of the tables should know beyond what they say."""
    if origins.scope == "shared":
        yield "one op table stands for all subgraphs, as the ONE compiler reads it"
        return
    for subgraph, operators in zip(model.subgraphs, origins.operators, strict=False):
        count = len(subgraph.operators)
        known = sum(1 for index in operators if index < count)
        if operators and known < count:
            yield f"subgraphs[{subgraph.index}]: operators without an origin: {count - known} of {count}"


def _place(freshness: Freshness) -> str:
    return f"in {freshness.place}" if freshness.operator is None else f"from {freshness.place} on"


def _pattern(text: str | None) -> re.Pattern[str] | None:
    if text is None:
        return None
    try:
        return re.compile(text)
    except re.error as error:
        raise UsageError(f"--source {text!r} is no regular expression: {error}") from error


def extract_origins(source: Input, directory: Directory) -> None:
    """Write the tables of origins to files, and as JSON.

    The tables are written as they are in the model (.bin), and as origins.json. Exit status 1 when the model has
    no origins, or when they no longer describe its operators.
    """
    import json  # noqa: PLC0415

    from circletools.origin.embed import ORIGIN_ENTRIES  # noqa: PLC0415
    from circletools.origin.read import check_freshness, read_origins  # noqa: PLC0415
    from circletools.origin.tables import EXECUTION_PLAN_TABLE, OP_TABLE, SOURCE_TABLE  # noqa: PLC0415
    from circletools.render.origins import Selection, origins_json  # noqa: PLC0415
    from circletools.storage import files  # noqa: PLC0415
    from circletools.storage.directories import making_directory  # noqa: PLC0415

    from ..console.reading import reading  # noqa: PLC0415
    from ..console.terminal import complain, tell  # noqa: PLC0415

    with reading(source) as model:
        tables = {name: model.metadata_value(name) for name in (*ORIGIN_ENTRIES, EXECUTION_PLAN_TABLE)}
        if tables[SOURCE_TABLE] is None and tables[OP_TABLE] is None:
            complain("warning", f"{source}: the model has no origins (embed-origins adds them)")
            raise typer.Exit(1)
        raw = {f"{name}.bin": bytes(value) for name, value in tables.items() if value is not None}
        for name in (*raw, "origins.json"):
            if model.source.path is not None and files.same_file(model.source.path, directory / name):
                place = str(directory / name)
                raise UsageError("this would replace the input", location=place, hint="name another DIR")

        def put(name: str, data: bytes) -> None:
            model.source.check_unchanged()
            files.write(directory / name, [data])
            tell(f"{directory / name}: {len(data)} bytes")

        with making_directory(directory):
            for name, data in raw.items():
                put(name, data)
            origins = read_origins(model)  # after the raw tables: those are wanted most when they are malformed
            assert origins is not None
            freshness = check_freshness(model, origins)
            document = origins_json(model, origins, freshness, Selection())
            put("origins.json", (json.dumps(document, indent=2) + "\n").encode())
    if freshness.state == "stale":
        complain("warning", f"{source}: the origins are stale {_place(freshness)}: {freshness.reason}")
        raise typer.Exit(1)
