"""Targets that read documents: rules, `.part` files, capability tables, costs, origins, selectors, logs."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from zlib import crc32

from circletools.affinity.assign import Constraints, RuleSet, assign, make_default, parse_rules, parse_setting
from circletools.affinity.capability.file import parse_capability
from circletools.affinity.capability.table import why_not
from circletools.affinity.costs.times import Costs, Defaults, cost_tables, parse_costs
from circletools.affinity.documents import PartFile, format_part, parse_part
from circletools.affinity.partitioning import assign_by_cost, make_partitioning
from circletools.affinity.problem import Sizing
from circletools.edit.edit import ModelEdit
from circletools.errors import CircleToolsError, EditError
from circletools.fit.fit import fit
from circletools.fit.request import FitRequest
from circletools.graph.build import graph_of, model_graph
from circletools.graph.selectors import Chooser, parse_selector
from circletools.model.model import open_model
from circletools.origin.embed import embed
from circletools.origin.exchange import parse_csv, parse_json
from circletools.origin.read import read_origins
from circletools.planning.evaluate import evaluated
from circletools.render.fit import fit_text
from circletools.render.plans import evaluation_json, evaluation_text
from fuzz.models import exhaust
from fuzz.seeds import model_seed
from fuzz.target import no_refusal

_MODEL = "circle/inception"


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def _assign(rules: RuleSet) -> None:
    with open_model(model_seed(_MODEL)) as model:
        chooser = Chooser(model_graph(model), [{0: ["a", "b"], 3: ["a/b"]}])
        assign(chooser, Constraints(rules.devices or ("npu", "cpu"), rules))


def rules_json(data: bytes) -> None:
    """Read rules, and assign operators by them."""
    _assign(parse_rules(_text(data), "rules.json"))


def part(data: bytes) -> None:
    """Read a `.part` file, and check that writing it preserves its meaning."""
    text = _text(data)
    found = parse_part(text, "x.part")
    try:
        written = format_part(found)
    except EditError:
        written = None
    if written is not None:
        with no_refusal("a .part file that was written cannot be read"):
            assert _comparable(parse_part(written, "again")) == _comparable(found)
    _assign(parse_rules(text, "x.part"))


def _comparable(found: PartFile) -> PartFile:
    """Omit line numbers, and whether there were spaces around names."""
    opcodes, opnames = (
        {key: (backend, 0) for key, (backend, _) in rules.items()} for rules in (found.opcodes, found.opnames)
    )
    return replace(found, opcodes=opcodes, opnames=opnames, trimmed=False)


def capability(data: bytes) -> None:
    """Read a capability table, and check a model against it."""
    table = parse_capability(data, "table.json")
    for name in (_MODEL, "circle/while_loop", "tflite/cnn_int8"):
        with open_model(model_seed(name)) as model:
            for subgraph in range(len(model.subgraphs)):
                why_not(table, graph_of(model, subgraph))


def baseline(data: bytes) -> None:
    """Read a baseline, and compare a model with it."""
    with TemporaryDirectory() as folder:
        file = Path(folder, "old.json")
        file.write_bytes(data)
        with open_model(model_seed(_MODEL)) as model:
            found = fit(model, FitRequest(on=("onert-ruy",), baseline=file))
            exhaust(fit_text(found))


def costs(data: bytes) -> None:
    """Read costs, and choose devices by them, for each objective in turn."""
    document = parse_costs(_text(data), "costs.json")
    known = Costs(document, {}, Defaults())
    number = crc32(data) % 4
    goal = Sizing(caps={0: 1 << 10} if number == 2 else {}, seconds=0.1 if number == 1 else 0.0)
    for name in ("circle/if_cond", _MODEL):
        with open_model(model_seed(name)) as model:
            try:
                _choose(Chooser(model_graph(model)), document.devices or ("npu", "cpu"), known, goal)
            except CircleToolsError:
                if name == _MODEL:
                    raise


def _choose(chooser: Chooser, devices: tuple[str, ...], known: Costs, goal: Sizing) -> None:
    problems = cost_tables(chooser, devices, known)
    rules = RuleSet((), make_default(devices[-1], "default"))
    assignment = assign_by_cost(chooser, Constraints(devices, rules), problems, goal)
    made = make_partitioning(chooser.model.graphs, assignment, Sizing())
    for each in evaluated(chooser.model.graphs, made, problems, memory=bool(goal.caps)):
        assert json.dumps(evaluation_json(each, devices, goal.caps))
        assert all(isinstance(line, str) for line in evaluation_text(each, devices, goal.caps))


def _nothing(file: str) -> None:
    raise AssertionError(file)


def origins_json(data: bytes) -> None:
    """Read origins, write them into a model, and read them back."""
    _embed(data, csv=False)


def origins_csv(data: bytes) -> None:
    """Do the same for CSV."""
    _embed(data, csv=True)


def _embed(data: bytes, *, csv: bool) -> None:
    origins = (parse_csv if csv else parse_json)(_text(data))
    with open_model(model_seed(_MODEL)) as model:
        edit = ModelEdit(model)
        embed(edit, origins)
        after = edit.to_bytes()
    with no_refusal("origins that were written cannot be read"), open_model(after) as model:
        found = read_origins(model)
    assert found is not None
    assert found.sources == origins.sources
    known = {index: origin for index, origin in origins.operators[0].items() if origin} if origins.operators else {}
    assert (dict(found.operators[0]) if found.operators else {}) == known


def selector(data: bytes) -> None:
    """Parse selectors and device settings, one per line, and apply them."""
    with open_model(model_seed(_MODEL)) as model:
        chooser = Chooser(model_graph(model), [{0: ["a", "b"], 3: ["a/b"]}])
        for line in _text(data).split("\n")[:16]:
            try:
                chooser.choose(parse_setting(line).selector if "=" in line else parse_selector(line))
            except CircleToolsError:
                continue
