"""Targets that read documents: rules, `.part` files, capability tables, origins as JSON and CSV, selectors."""

from __future__ import annotations

from dataclasses import replace

from circletools.affinity.assign import assign
from circletools.affinity.capability import why_not
from circletools.affinity.capability_file import parse_capability
from circletools.affinity.partfile import PartFile, format_part, parse_part
from circletools.affinity.rules import RuleSet, parse_rules, parse_setting
from circletools.errors import CircleToolsError, EditError
from circletools.model import open_model
from circletools.model.selectors import Chooser, parse_selector
from circletools.origin import embed, read_origins
from circletools.origin.exchange import parse_csv, parse_json
from fuzz.seeds import model_seed
from fuzz.target import no_refusal

_MODEL = "circle/inception"


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def _assign(rules: RuleSet) -> None:
    with open_model(model_seed(_MODEL)) as model:
        assign(Chooser(model, [{0: ["a", "b"], 3: ["a/b"]}]), rules.devices or ("npu", "cpu"), rules)


def rules_json(data: bytes) -> None:
    """Read rules, and assign by them."""
    _assign(parse_rules(_text(data), "rules.json"))


def part(data: bytes) -> None:
    """Read a `.part` file; what is written of it says the same."""
    text = _text(data)
    found = parse_part(text, "x.part")
    try:
        written = format_part(found)
    except EditError:
        written = None
    if written is not None:
        with no_refusal("a .part file that was written cannot be read"):
            assert _said(parse_part(written, "again")) == _said(found)
    _assign(parse_rules(text, "x.part"))


def _said(found: PartFile) -> PartFile:
    """Leave out the numbers of lines."""
    opcodes, opnames = (
        {key: (backend, 0) for key, (backend, _) in rules.items()} for rules in (found.opcodes, found.opnames)
    )
    return replace(found, opcodes=opcodes, opnames=opnames)


def capability(data: bytes) -> None:
    """Read a capability table, and ask it about a model."""
    table = parse_capability(data, "table.json")
    for name in (_MODEL, "circle/while_loop", "tflite/cnn_int8"):
        with open_model(model_seed(name)) as model:
            for subgraph in range(len(model.subgraphs)):
                why_not(table, model, subgraph)


def origins_json(data: bytes) -> None:
    """Read origins, write them into a model, read them back."""
    _embed(data, csv=False)


def origins_csv(data: bytes) -> None:
    """The same, from CSV."""
    _embed(data, csv=True)


def _embed(data: bytes, *, csv: bool) -> None:
    origins = (parse_csv if csv else parse_json)(_text(data))
    with open_model(model_seed(_MODEL)) as model:
        edit = model.edit()
        embed(edit, origins)
        after = edit.to_bytes()
    with no_refusal("origins that were written cannot be read"), open_model(after) as model:
        found = read_origins(model)
    assert found is not None
    assert found.sources == origins.sources
    known = {index: origin for index, origin in origins.operators[0].items() if origin} if origins.operators else {}
    assert (dict(found.operators[0]) if found.operators else {}) == known


def selector(data: bytes) -> None:
    """Choose operators, and set a device; a line each."""
    with open_model(model_seed(_MODEL)) as model:
        chooser = Chooser(model, [{0: ["a", "b"], 3: ["a/b"]}])
        for line in _text(data).split("\n")[:16]:
            try:
                chooser.choose(parse_setting(line).selector if "=" in line else parse_selector(line))
            except CircleToolsError:
                continue
