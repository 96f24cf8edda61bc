"""Targets that read and edit models."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from functools import cache
from typing import NamedTuple
from zlib import crc32

from circletools import entries
from circletools.affinity.documents import format_part
from circletools.affinity.exports.export import onert_environment, openvino_affinity, part_file
from circletools.affinity.exports.pictures import current_affinity, dot_graph, model_explorer_data
from circletools.affinity.solvers.partitions import Mode
from circletools.affinity.store import AFFINITY_ENTRIES, annotate
from circletools.affinity.store import follow as follow_affinity
from circletools.affinity.store import strip as strip_affinity
from circletools.affinity.tables import Affinity, read_affinity
from circletools.affinity.tables import check_freshness as check_affinity
from circletools.check import check
from circletools.cost.cost import cost
from circletools.edit.compact import compact_parts
from circletools.edit.edit import ModelEdit
from circletools.errors import CircleToolsError, EditError
from circletools.findings import Finding
from circletools.fit.fit import fit
from circletools.fit.request import FitRequest
from circletools.graph.build import model_graph
from circletools.graph.graph import ModelGraph
from circletools.html.document import page_document
from circletools.html.html import page_html
from circletools.inspection import inspect_model
from circletools.model.model import Model, open_model
from circletools.model.verify import check_model, is_dangling
from circletools.origin.describe import describe
from circletools.origin.embed import ORIGIN_ENTRIES, embed
from circletools.origin.embed import follow as follow_origins
from circletools.origin.embed import strip as strip_origins
from circletools.origin.names import NameSource, collect_sources
from circletools.origin.read import check_freshness as check_origins
from circletools.origin.read import read_origins
from circletools.outputs.analysis import choose_subgraphs
from circletools.outputs.fixing import fix_outputs
from circletools.planning.inspection import inspect_affinity
from circletools.planning.planner import plan
from circletools.planning.request import PlanRequest
from circletools.render.fit import fit_json, fit_sarif, fit_text
from circletools.render.inspection import inspection_json, inspection_text
from circletools.render.origins import origins_csv, origins_json, origins_text
from circletools.render.plans import affinity_json, affinity_text, plan_json, plan_text
from circletools.render.table import document_json, rows_csv
from circletools.requires.requirements import requires
from circletools.storage.files import view
from fuzz import seeds
from fuzz.content import Content, content
from fuzz.target import no_refusal

Change = Callable[[ModelEdit], object]
_MODES: tuple[Mode, ...] = ("min", "seed")


def exhaust(lines: Iterable[str]) -> None:
    """Consume all lines; each must be a single line."""
    for line in lines:
        assert isinstance(line, str)


def look(data: bytes) -> None:
    """Open, verify, check and inspect a model. A model that passes verification can be inspected."""
    with open_model(data) as model:
        try:
            findings = check(model)
        except CircleToolsError:
            findings = None
        document = json.dumps([(one.code, one.severity, one.location, one.message) for one in findings or ()])
        assert document
        if findings is not None and not _errors(findings):
            with no_refusal("inspect refuses what verify accepts"):
                found = inspect_model(model)
        else:
            found = inspect_model(model)
        assert json.dumps(inspection_json(found))
        if model.format == "tflite":
            assert json.dumps(document_json(requires(model)))
        assert json.dumps(document_json(cost(model, "module")))
        exhaust(inspection_text(found))


def _errors(findings: Iterable[Finding]) -> list[Finding]:
    return [one for one in findings if one.severity == "error" or is_dangling(one)]


def dump(data: bytes) -> None:
    """Show the origins and the affinity in a model, and export them."""
    with open_model(data) as model:
        _dump_origins(model)
        _dump_affinity(model)
        _export(model)


def fit_all(data: bytes) -> None:
    """Check whether a model runs on targets. Each obstacle must have a reason, a remedy and an origin."""
    with open_model(data) as model:
        found = fit(model, FitRequest(on=("xnnpack", "onert-cpu")))
        assert json.dumps(fit_json(found))
        assert json.dumps(fit_sarif(found))
        exhaust(fit_text(found))
    assert all(one.reason and one.remedy and one.origin for target in found.targets for one in target.misfits)


def page(data: bytes) -> None:
    """Make the page of a model. Whatever the names, the page must have the same elements as any other."""
    with open_model(data) as model:
        name = data[-24:].decode("latin-1")
        html = page_html(page_document(model, name)).encode()
    assert html.count(b"<") == _page_brackets(), "a name became markup"


@cache
def _page_brackets() -> int:
    with open_model(seeds.model_seed("circle/mlp")) as model:
        return page_html(page_document(model, "mlp.circle")).count("<")


def _dump_origins(model: Model) -> None:
    try:
        table = describe(model)
        assert json.dumps(origins_json(table))
        assert origins_csv(table)
        exhaust(origins_text(table))
    except CircleToolsError:
        pass


def _dump_affinity(model: Model) -> None:
    try:
        found = inspect_affinity(model)
        assert json.dumps(affinity_json(found))
        assert rows_csv(found) is not None
        for by_operator in (False, True):
            exhaust(affinity_text(found, by_operator=by_operator))
    except CircleToolsError:
        pass


def _export(model: Model) -> None:
    graph = model_graph(model)
    affinity = current_affinity(graph)
    exports: tuple[Callable[[ModelGraph, Affinity], object], ...] = (
        dot_graph,
        model_explorer_data,
        openvino_affinity,
        onert_environment,
        lambda model, affinity: format_part(part_file(model, affinity)),
    )
    for export in exports:
        try:
            assert json.dumps(export(graph, affinity)) is not None
        except CircleToolsError:
            continue


# --- edits --------------------------------------------------------------------------------------------------


def _after(data: bytes, change: Change) -> bytes:
    with open_model(data) as model:
        edit = ModelEdit(model)
        change(edit)
        return edit.to_bytes()


def _content(data: bytes) -> Content:
    with open_model(data) as model:
        errors = _errors(check_model(model))
        assert not errors, f"the result does not verify: {errors[0]}"
    return content(data)


class _Rewrite(NamedTuple):
    """The result of an edit, and the contents before and after."""

    after: bytes
    old: Content
    new: Content


def rewritten(data: bytes, change: Change, owned: tuple[str, ...] = ()) -> _Rewrite:
    """Apply an edit; fail if it changes metadata that it does not own, or if applying it again changes anything."""
    after = _after(data, change)  # refuses models that fail verification
    old = _content(data)
    with no_refusal("what was written cannot be read"):
        new = _content(after)
        again = _after(after, change)
    kept, found = ([entry for entry in one.metadata if entry[0] not in owned] for one in (old, new))
    assert kept == found, "metadata changed"
    assert again == after, "the second time changes something"
    return _Rewrite(after, old, new)


def _same_graph(done: _Rewrite) -> bytes:
    """Fail unless only metadata changed; return the result."""
    assert done.new.subgraphs == done.old.subgraphs, "subgraphs changed"
    assert done.new.signatures == done.old.signatures, "signatures changed"
    return done.after


def _undone(data: bytes, after: bytes, strip: Change, owned: tuple[str, ...]) -> None:
    """Fail unless removing the entries again gives the file without them."""
    with open_model(data) as model:
        names = {entry.name for entry in model.metadata}
        if names & set(owned) or _after(data, lambda _: None) != data:
            return
    assert _after(after, strip) == data, "undoing does not give the original"


def embed_origins(data: bytes) -> None:
    """Write origins, for each kind of name in turn."""
    names = list(NameSource)[crc32(data) % len(NameSource)]

    def change(edit: ModelEdit) -> None:
        try:
            sources = collect_sources(edit.model, names)
        except EditError:
            sources = collect_sources(edit.model)
        embed(edit, sources, replace=True)

    after = _same_graph(rewritten(data, change, ORIGIN_ENTRIES))
    _undone(data, after, strip_origins, ORIGIN_ENTRIES)
    with open_model(after) as model:
        origins = read_origins(model)
        assert origins is not None
        assert check_origins(model, origins).state == "fresh"


def plan_of(model: Model, mode: Mode = "min", min_size: int = 1) -> Affinity:
    """Assign operators 1, 3, 4 and 5 to one device and the others to another."""
    rules = tuple(
        f"{number}/index:1,3-5=npu"
        for number, subgraph in enumerate(model.subgraphs[:1000])
        if len(subgraph.operators) > 5
    )
    devices = ("npu", "cpu")
    made = plan(model, PlanRequest(devices=devices, rules=rules, default="cpu", mode=mode, min_size=min_size))
    assert json.dumps(plan_json(made))
    exhaust(plan_text(made))
    return made.to_affinity()


@cache
def model_seeds() -> list[bytes]:
    """Return the initial models, and a few models with all our tables."""

    def change(edit: ModelEdit) -> None:
        embed(edit, collect_sources(edit.model))
        annotate(edit, plan_of(edit.model))

    some = ("circle/inception", "circle/if_cond", "tflite/while_loop", "tflite/zip_tail", "circle/mlp_external")
    return [*seeds.models(), *(_after(seeds.model_seed(name), change) for name in some)]


def annotate_affinity(data: bytes) -> None:
    """Write a plan, with each partitioning mode in turn."""
    mode = _MODES[crc32(data) % len(_MODES)]

    def change(edit: ModelEdit) -> None:
        annotate(edit, plan_of(edit.model, mode, 1 + crc32(data, 1) % 2))

    after = _same_graph(rewritten(data, change, AFFINITY_ENTRIES))
    _undone(data, after, strip_affinity, AFFINITY_ENTRIES)
    with open_model(after) as model:
        affinity = read_affinity(model)
        assert affinity is not None
        assert check_affinity(model, affinity).state == "fresh"


def fix(data: bytes) -> None:
    """Give every output its own tensor. Only tables that are updated with the operators may change."""

    def change(edit: ModelEdit) -> None:
        follow_origins(edit)
        follow_affinity(edit)
        where = choose_subgraphs(model_graph(edit.model), "all" if crc32(data) % 2 else "entry")
        fix_outputs(edit, where, detach_taps=crc32(data, 1) % 2 == 0, keep_constants=crc32(data, 2) % 2 == 0)

    done = rewritten(data, change, (*ORIGIN_ENTRIES, *AFFINITY_ENTRIES))
    for old, new in zip(done.old.subgraphs, done.new.subgraphs, strict=True):
        assert (old.name, old.inputs, len(old.outputs)) == (new.name, new.inputs, len(new.outputs))
        assert new.operators[: len(old.operators)] == old.operators
        assert new.tensors[: len(old.tensors)] == old.tensors


def strip_all(data: bytes) -> None:
    """Remove every other metadata entry."""
    with open_model(data) as model:
        names = sorted({entry.name for entry in model.metadata})[::2]

    def change(edit: ModelEdit) -> None:
        for name in names:
            edit.remove_metadata(name)

    after = _same_graph(rewritten(data, change, tuple(names)))
    with open_model(after) as model:
        assert not {entry.name for entry in model.metadata} & set(names)


def describe_all(data: bytes) -> None:
    """Describe the model and its inputs, and label its last output; repeating this must change nothing."""

    def change(edit: ModelEdit) -> None:
        entries.describe(edit, entries.Description("fuzz", inputs=(("0", "an input"),)))
        entries.labels(edit, ["a", "b"], values=True)

    with open_model(data) as model:
        edit = ModelEdit(model)
        change(edit)
        after = edit.to_bytes()
    with open_model(after) as model:
        assert entries.document(model)["name"] == "fuzz"
        edit = ModelEdit(model)
        change(edit)
        assert edit.to_bytes() == after, "twice is not once"


def compact(data: bytes) -> None:
    """Write a minimal file, twice."""
    with open_model(data) as model:
        after = b"".join(map(view, compact_parts(model)))
    old = _content(data)
    with no_refusal("what was written cannot be read"):
        assert _content(after) == old, "the content changed"
        with open_model(after) as model:
            again = b"".join(map(view, compact_parts(model)))
    assert again == after, "the second time changes something"
