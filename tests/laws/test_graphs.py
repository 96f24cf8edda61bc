"""Only what reads or writes files, and what callers enter by, takes a model; all other functions take graphs."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from circletools.lazy import places_of
from tests.laws.source import files, module_of, name_of, text_of

READERS = {
    "asking": "writes a model for another program",
    "diff": "compares two files, table by table",
    "entries": "reads and writes metadata entries",
    "edit": "writes files",
    "inspection": "lists what is in a file",
    "model": "reads files",
    "numerics": "gives a file and parts of it to programs",
    "parts": "writes parts of files",
    "shapes": "writes the shapes that it infers",
    "soundness": "finds what is wrong with a file",
}
EXCEPTIONS = {
    "circletools.fit.refused with_shapes": "writes the shapes that it infers",
    "circletools.fit.refused _doubt": "reads the model with those shapes",
    "circletools.fit.programs ask": "gives the file to a program",
    **dict.fromkeys(
        (f"circletools.graph.offline {name}" for name in ("planned_offsets", "plan_findings", "edited_plan")),
        "reads an entry of the file",
    ),
    "circletools.html.numbers _graph": "draws what `compare` gave to programs",
    "circletools.planning.measuring plan_of_parts": "compares a file with its parts",
    "circletools.html.difference _changes": "shows what differs between two files",
    "circletools.html.difference _pairs": "shows what differs between two files",
    "circletools.html.difference _place": "shows what differs between two files",
    "circletools.html.report title_of": "names the file",
    "circletools.render.difference alike": "shows what differs between two files",
    "circletools.reduction.reduce _with_one_smaller": "tries an edit",
    "circletools.html.document page_document": "shows what `check` and `inspect` find",
    "circletools.origin.exporters.tico through_the_optimizer": "enters tracking",
    "circletools.render.difference_lines tensor_with": "shows what differs between two files",
    "circletools.render.difference __init__": "shows what differs between two files",
}
CHANGING = ("circletools.split", "circletools.surgery")
ENTRIES = {
    place for path in Path(__file__).parents[2].rglob("circletools/**/*.pyi") for place in places_of(path).values()
}


def takers(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the functions of a file that take a Model and are not exported lazily, as module and name."""
    for node in ast.walk(ast.parse(text_of(path))):
        if isinstance(node, ast.FunctionDef):
            given = [one.annotation for one in (*node.args.args, *node.args.kwonlyargs) if one.annotation]
            names = {one.id for kind in given for one in ast.walk(kind) if isinstance(one, ast.Name)}
            if "Model" in names and (module_of(path), node.name) not in ENTRIES:
                yield module_of(path), node.name


def test_functions_on_models_read_the_file_or_return_context_managers() -> None:
    found = {f"{module} {name}" for path in files("circletools") for module, name in takers(path)}
    odd = {one for one in found if one.split()[0].split(".")[1] not in READERS and not one.startswith(CHANGING)}
    assert {one for one in odd if not one.startswith("circletools.graph.build ")} == EXCEPTIONS.keys()


def test_a_taker_is_seen() -> None:
    path = next(path for path in files("circletools") if name_of(path) == "circletools/graph/build.py")
    assert ("circletools.graph.build", "graph_of") in set(takers(path))
