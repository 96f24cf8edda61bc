"""Selectors, rules and what they decide."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import circletools as ct
from circletools.affinity.assign import Constraints, Rule, RuleSet, assign, make_default, parse_rules, parse_setting
from circletools.affinity.partitioning import make_partitioning
from circletools.affinity.problem import Sizing
from circletools.errors import CircleToolsError, EditError, InvalidInputError, UsageError
from circletools.graph.build import model_graph
from circletools.graph.selectors import KINDS, Chooser, Selector, parse_selector
from circletools.model.model import open_model
from circletools.planning.reproject import devices_of_sources, reproject, source_names
from tests.kit.affinity_support import assigned, unruled, with_affinity
from tests.kit.origin_support import embedded, origins, rebuilt
from tests.kit.support import bytes_of

DIAMOND = bytes_of("circle/diamond")  # FULLY_CONNECTED -> TANH, LOGISTIC -> MUL -> RELU -> ADD
TWO = ("npu", "cpu")


def chosen(words: str, data: bytes = DIAMOND) -> dict[int, list[int]]:
    with open_model(data) as model:
        selector = parse_selector(words)
        return Chooser(
            model_graph(model), source_names(model_graph(model)) if selector.kind == "origin" else ()
        ).choose(selector)


def test_selectors_by_origin() -> None:
    data = embedded(DIAMOND, origins({1: "block1/conv", 2: "block2/conv"}, {0: {1}, 1: {1, 2}, 4: {2}}))
    assert chosen("origin:block1/*", data) == {0: [0, 1]}
    assert chosen("origin:*conv", data) == {0: [0, 1, 4]}


@given(st.text(max_size=30), st.sampled_from(KINDS))
def test_any_words_are_a_selector_or_refused(words: str, kind: str) -> None:
    with suppress(CircleToolsError):
        chosen(f"{kind}:{words}")


def test_origins_that_are_not_there_or_stale_choose_nothing() -> None:
    with pytest.raises(EditError, match="no origins"):
        chosen("origin:*")

    def rename(model: Any) -> None:
        graph = model.subgraphs[0]
        graph.tensors[graph.operators[4].outputs[0]].name = b"another"

    with pytest.raises(EditError, match="stale"):
        chosen("origin:*", rebuilt(embedded(DIAMOND), rename))


def test_a_source_counts_once_however_many_operators_it_has() -> None:
    sources = {0: "a", 1: "b", 2: "c"}
    earlier = embedded(DIAMOND, origins(sources, {0: {0}, 1: {0}, 2: {0}, 3: {1}, 4: {2}, 5: {2}}))
    before = with_affinity(earlier, TWO, "index:0-2=npu", default="cpu")
    after = embedded(DIAMOND, origins(sources, {0: {0, 1, 2}}))
    with open_model(after) as model, open_model(before) as annotated_model:
        found = reproject(model_graph(model), devices_of_sources(model_graph(annotated_model)))
    assert found.before[0][0].device == "cpu"


def test_one_table_for_all_subgraphs_describes_only_the_main_one() -> None:
    loop = bytes_of("circle/while_loop")
    before = with_affinity(embedded(loop), TWO, "0/op:*=npu", default="cpu")
    compiled = embedded(loop, stamp=False)  # the ONE compiler drops the stamp
    with open_model(compiled) as model, open_model(before) as annotated_model:
        found = reproject(model_graph(model), devices_of_sources(model_graph(annotated_model)))
    assert {decision.device for decision in found.before[0].values()} == {"npu"}
    assert not any(found.before[1:])
    assert [conflict.location for conflict in found.conflicts] == [
        f"subgraphs[{index}]" for index in range(1, len(found.before))
    ]


def names(data: bytes, *settings: str, default: str | None = None) -> list[str]:
    with open_model(data) as model:
        found = assigned(model, TWO, *settings, default=default)
        return [found.devices[number] for number in found.numbers[0]]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("op:ADD", "names no device"),
        ("op:ADD=", "names no device"),
        ("npu=op:ADD", "names the device first .write op:ADD=npu"),
        ("ADD=npu", "is not a selector"),
    ],
)
def test_settings_that_are_refused(words: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse_setting(words)


def test_the_default_takes_what_is_left() -> None:
    assert names(DIAMOND, "op:MUL=npu", default="cpu") == ["cpu", "cpu", "cpu", "npu", "cpu", "cpu"]


def test_only_rules_that_a_table_speaks_against_count_as_such() -> None:
    refusals = {"npu": [[None, "no", None, None, "no", "no"]]}
    with open_model(DIAMOND) as model:
        found = assigned(model, ["npu", "cpu"], "index:0-1=npu", "index:2=cpu", refusals=refusals, default="cpu")
        assert found.numbers[0] == [0, 0, 1, 0, 1, 1]
        assert found.against_capability() == [(0, 1)]


def test_devices_with_a_table_take_what_they_can_in_turn() -> None:
    refusals = {"npu": [["no float", None, None, "no float", None, "no float"]], "gpu": [[None, "no"] + [None] * 4]}
    with open_model(DIAMOND) as model:
        found = assigned(model, ["npu", "gpu", "cpu"], "index:5=npu", "index:1=gpu", refusals=refusals, default="cpu")
        assert found.numbers[0] == [1, 1, 0, 1, 0, 0]
        assert found.why(0, 0) == "the first device that supports it; not npu: no float"
        assert found.why(0, 1) == "rule index:1=gpu, although the device does not support it: no"
        assert found.against_capability() == [(0, 1), (0, 5)]
        with pytest.raises(EditError, match="no table supports it: never"):
            assigned(model, TWO, refusals={"npu": [["never"] * 6]})


RULES = """{
  "schema_version": 1,
  "default": "cpu",
  "rules": [
    {"select": "op:MUL", "device": "npu"},
    {"select": "index:5",
     "device": "npu"}
  ]
}"""


def test_a_file_of_rules() -> None:
    found = parse_rules(RULES, "rules.json")
    assert [(str(rule.selector), rule.device, rule.place) for rule in found.rules] == [
        ("op:MUL", "npu", "rules.json:5"),
        ("index:5", "npu", "rules.json:6"),
    ]
    assert found.default is not None
    assert (found.default.device, found.default.place) == ("cpu", "rules.json:1")


def test_the_command_line_counts_before_the_file() -> None:

    rules = parse_rules(RULES, "rules.json").and_then(RuleSet((parse_setting("op:MUL=cpu"),)))
    with open_model(DIAMOND) as model:
        assert assign(Chooser(model_graph(model)), Constraints(TWO, rules)).numbers[0] == [1, 1, 1, 1, 1, 0]


def test_later_entries_override_where_set() -> None:
    """The default, and the devices that a document lists."""
    one = RuleSet((parse_setting("op:MUL=cpu"),), make_default("cpu", "one"), ("cpu",))
    other = RuleSet((parse_setting("op:MUL=npu"),), make_default("npu", "two"), ("npu",))
    nothing = RuleSet()
    for first, then, answer in ((one, other, other), (one, nothing, one), (nothing, other, other)):
        both = first.and_then(then)
        assert (both.default, both.devices) == (answer.default, answer.devices)
        assert both.rules == first.rules + then.rules


def test_a_part_file() -> None:
    """Names are names there, not globs; it lists the devices too."""
    words = "[partition]\nbackends=npu,cpu\ndefault=cpu\ncomply=opname\n[OPNAME]\n*=npu\n[OPCODE]\nMUL=npu\n"
    with open_model(DIAMOND) as model, pytest.raises(UsageError, match=r"rules.part:6: name:\* matches no operator"):
        assign(Chooser(model_graph(model)), Constraints(TWO, parse_rules(words, "rules.part")))
    rules = parse_rules(words.replace("opname", "opcode"), "rules.part")
    assert rules.devices == TWO
    with open_model(DIAMOND) as model:
        assert assign(Chooser(model_graph(model)), Constraints(rules.devices, rules)).numbers[0] == [1, 1, 1, 0, 1, 1]


NO_RULES: list[tuple[Callable[[str], str], str]] = [
    (lambda words: words.replace("{", "[", 1), "rules.json:2"),
    (lambda _: "[]", "rules.json:1"),
    (lambda words: words.replace('"select"', '"selekt"', 1), "rules.json:5"),
    (lambda words: words.replace('"op:MUL"', "3"), "rules.json:5"),
    (lambda words: words.replace("1", "2", 1), "rules.json"),
    (lambda words: words.replace('"device": "npu"}\n', '"device": ""}\n'), "rules.json:6"),
    (lambda words: words.replace('"rules"', '"rulez"'), "rules.json:1"),
    (lambda _: '{"rules": [1]}', "rules.json: rules[0]"),
]


def test_files_that_are_no_rules() -> None:
    for change, place in NO_RULES:
        with pytest.raises(InvalidInputError) as caught:
            parse_rules(change(RULES), "rules.json")
        assert caught.value.location == place


def test_a_bad_selector_in_a_file_is_named_with_its_line() -> None:
    with pytest.raises(UsageError) as caught:
        parse_rules(RULES.replace("index:5", "index:x"), "rules.json")
    assert caught.value.location == "rules.json:6"


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda deeper: (
            st.lists(deeper) | st.dictionaries(st.sampled_from(["rules", "select", "device", "default", "x"]), deeper)
        ),
        max_leaves=8,
    )
)
def test_any_document_is_rules_or_refused(document: object) -> None:
    with suppress(CircleToolsError):
        parse_rules(json.dumps(document), "rules.json")


def test_small_partitions_go_to_the_default_device() -> None:

    with open_model(DIAMOND) as model:
        assignment = assigned(model, TWO, "index:0-1,3=npu", default="cpu")
        stays = make_partitioning(model_graph(model).graphs, assignment, Sizing(min_size=2)).subgraphs[0]
        assert (stays.numbers, stays.moved) == ([0, 0, 1, 0, 1, 1], {})
        assert [partition.operators for partition in stays.left] == [(3,)]
        made = make_partitioning(model_graph(model).graphs, unruled(assignment), Sizing(min_size=2))
        assert made.subgraphs[0].numbers == [0, 0, 1, 1, 1, 1]
        assert made.subgraphs[0].moved.keys() == {3}
        refusals = {"cpu": [[None, None, None, "no", None, None]]}
        refused = unruled(assigned(model, TWO, "index:0-1,3=npu", default="cpu", refusals=refusals))
        assert make_partitioning(model_graph(model).graphs, refused, Sizing(min_size=2)).subgraphs[0].numbers[3] == 0


def test_affinity_comes_back_through_origins() -> None:
    """As after a compiler that fused and reordered operators, kept origins and dropped what it did not know."""
    sources = {0: "a", 1: "b", 2: "c", 3: "d"}
    before = with_affinity(
        embedded(DIAMOND, origins(sources, {0: {0}, 1: {1}, 2: {2}, 3: {3}})), TWO, "index:0-1=npu", default="cpu"
    )
    after = embedded(DIAMOND, origins(sources, {0: {0, 1}, 1: {2}, 2: {1, 2, 3}, 5: {3, 0}}))
    with open_model(after) as model, open_model(before) as annotated_model:
        found = reproject(model_graph(model), devices_of_sources(model_graph(annotated_model)))
    assert found.devices == TWO
    assert {operator: decision.device for operator, decision in found.before[0].items()} == {
        0: "npu",
        1: "cpu",
        2: "cpu",
        5: "npu",
    }
    assert [conflict.location for conflict in found.conflicts] == [
        "subgraphs[0].operators[2]",
        "subgraphs[0].operators[5]",
    ]


@pytest.mark.parametrize("broken", ["no origins", "no affinity"])
def test_time_of_reprojecting(broken: str) -> None:
    with_origins = embedded(DIAMOND)
    model = DIAMOND if broken == "no origins" else with_origins
    earlier = with_origins if broken == "no affinity" else with_affinity(with_origins, ["cpu"], default="cpu")
    with open_model(model) as new, open_model(earlier) as old, pytest.raises(EditError, match=broken):
        reproject(model_graph(new), devices_of_sources(model_graph(old)))


@pytest.mark.parametrize(
    ("count", "notes", "last"), [(20, 20, "op:NONE19"), (21, 21, "match nothing: 1"), (25, 21, "match nothing: 5")]
)
def test_twenty_rules_without_a_match_are_reported(count: int, notes: int, last: str) -> None:
    with ct.open(bytes_of("tflite/cnn")) as model:
        rules = (*(f"op:NONE{at}=npu" for at in range(count)), "op:CONV_2D=npu")
        plan = ct.plan(
            model, ct.PlanRequest(devices=("npu", "cpu"), rules=rules, default="cpu", allow_unmatched=True)
        )
    found = [note.message for note in plan.notes if note.code == "UNMATCHED_RULE"]
    assert (len(found), last in found[-1]) == (notes, True)


@pytest.mark.parametrize(("literal", "kept"), [(True, "MUL"), (False, None)])
def test_blanks_around_a_literal_name_do_not_matter(literal: bool, kept: str | None) -> None:
    """Where it matches only so; a pattern with blanks matches nothing, and neither does a name of blanks."""
    rules = [
        Rule(Selector("op", name, literal=literal), "npu", "here", may_miss=True) for name in (" MUL\t", " ", "")
    ]
    with open_model(DIAMOND) as model:
        found = RuleSet(tuple(rules)).matching(Chooser(model_graph(model)), allow_unmatched=False)
        names = [operator.code.name for operator in model.subgraphs[0].operators]
    assert "MUL" in names
    assert [rule.selector.pattern for rule in found.rules] == ([kept] if kept else [])
    assert [note.code for note in found.notes] == ["UNMATCHED_RULE"] * (3 - len(found.rules))


def test_rules_that_match_nothing_are_left_out_where_they_may_be() -> None:
    """Each of the first 20 is reported; a selector that must match stays, so that `assign` refuses it."""
    strict = parse_setting("op:ABSENT=npu")
    missing = [replace(strict, may_miss=True, place=f"line {at}") for at in range(22)]
    for count in (20, 21, 22):
        with open_model(DIAMOND) as model:
            found = RuleSet((strict, *missing[:count])).matching(Chooser(model_graph(model)), allow_unmatched=False)
        assert found.rules == (strict,)
        assert [note.location for note in found.notes] == [f"line {at}" for at in range(20)] + [""] * (count > 20)
    assert found.notes[-1].message == "other rules that match nothing: 2"
    with open_model(DIAMOND) as model:
        allowed = RuleSet((strict,)).matching(Chooser(model_graph(model)), allow_unmatched=True)
    assert (allowed.rules, len(allowed.notes)) == ((), 1)
