"""Origins as documents and readable tables: what is read, selected and shown, value for value."""

from __future__ import annotations

import json
from typing import Any

import pytest

from circletools.errors import InvalidInputError, UsageError
from circletools.findings import Finding
from circletools.graph.build import model_graph
from circletools.model.model import open_model
from circletools.origin.describe import OperatorRow, Selection, describe
from circletools.origin.exchange import parse_csv, parse_json, parse_origins
from circletools.origin.read import EXACT_TABLE, origin_findings
from circletools.origin.tables import OP_TABLE, SOURCE_TABLE, encode_op_table, encode_source_table
from circletools.origin.tracking.ends import Evidence
from tests.kit.origin_support import embedded, entries, origins, u32s
from tests.kit.support import bytes_of, edited
from tests.kit.tracking_support import chain, tracked

ROW = chain("TANH", "NEG", "RELU", names=lambda number: f"t{number}")
LOOP = bytes_of("circle/while_loop")  # subgraphs of 1, 1 and 3 operators
SOME = origins({0: "a/x", 1: "b/y", 5: "nobody"}, {0: {0}, 2: {0, 1}})

# --- JSON ---------------------------------------------------------------------------------------------------


def document(**keys: Any) -> str:
    return json.dumps({"sources": [{"id": 1, "name": "one"}], "operators": [], **keys})


def test_a_json_document_is_read_value_for_value() -> None:
    operators = [
        {"operator_index": 3, "sources": [1]},
        {"subgraph": 2, "operator_index": 0, "sources": [1, 7]},
        {"subgraph": 2, "operator_index": 0, "sources": [1]},
        {"operator_index": 4},
    ]
    found = parse_json(document(sources=[{"id": 1, "name": "one"}, {"id": 7, "name": ""}], operators=operators))
    assert found.sources == {1: "one", 7: ""}
    assert found.operators == entries({3: {1}}, {}, {0: {1, 7}})
    assert found.scope == "exact"
    assert parse_json(document(schema_version=json.loads(document()).get("schema_version", 1))).operators == ({},)


def pair(**keys: Any) -> dict[str, Any]:
    return {"operator_index": 0, "sources": [1], **keys}


BAD_JSON: list[tuple[str, str, str]] = [
    (document(schema_version=9), "schema_version 9 is not known", "JSON"),
    ("[]", "`sources` must be a list of objects", "JSON"),
    (document(sources={}), "`sources` must be a list of objects", "JSON"),
    (document(operators=[1]), "`operators` must be a list of objects", "JSON"),
    (document(sources=[{"name": "a"}]), "`id` is missing", "JSON: sources[0]"),
    (document(sources=[{"id": 1}]), "`name` must be a string", "JSON: sources[0]"),
    (document(sources=[{"id": 1, "name": "a"}] * 2), "source 1 is listed twice", "JSON: sources[1]"),
    (document(operators=[{}]), "`operator_index` is missing", "JSON: operators[0]"),
    (document(operators=[pair(sources=1)]), "`sources` must be a list of ids", "JSON: operators[0]"),
    (document(operators=[pair(), pair(sources=[2])]), "source 2 is not listed", "JSON: operators[1]"),
    (document(operators=[pair(sources=[-1])]), "`sources[0]` must be a whole number below 2^32, not -1",
     "JSON: operators[0]"),
    (document(operators=[pair(operator_index=2**32)]),
     f"`operator_index` must be a whole number below 2^32, not {2**32}", "JSON: operators[0]"),
    (document(operators=[pair(subgraph=True)]), "`subgraph` must be a whole number below 2^32, not True",
     "JSON: operators[0]"),
    (document(operators=[pair(operator_index="²")]),
     "`operator_index` must be a whole number below 2^32, not '²'", "JSON: operators[0]"),
    (document(operators=[pair(operator_index="0")]),
     "`operator_index` must be a whole number below 2^32, not '0'", "JSON: operators[0]"),
    (document(operators=[pair(subgraph=1 << 16)]), "subgraph index 65536 is too large", "JSON"),
]  # fmt: skip


def test_what_is_wrong_with_a_json_document() -> None:
    for words, message, place in BAD_JSON:
        with pytest.raises(InvalidInputError) as caught:
            parse_json(words)
        assert (caught.value.message, caught.value.location) == (message, place)


def test_numbers_may_be_as_large_as_that() -> None:
    largest = [pair(operator_index=2**32 - 1), pair(operator_index=4), pair(subgraph=(1 << 16) - 1)]
    found = parse_json(document(operators=largest))
    assert len(found.operators) == 1 << 16
    assert found.operators[0] == entries({2**32 - 1: {1}, 4: {1}})[0]


# --- CSV ----------------------------------------------------------------------------------------------------

HEAD = "subgraph,operator_index,source_id,source_name\n"


def test_a_csv_document_is_read_value_for_value() -> None:
    text = HEAD + ',3,1,one\n0,3,7,"a ""b"",\nc"\n2,0,1,one\n,,9,named\n1,5,,\n'
    found = parse_csv(text)
    assert found.sources == {1: "one", 7: 'a "b",\nc', 9: "named"}
    assert found.operators == entries({3: {1, 7}}, {}, {0: {1}})
    assert parse_origins(text, "x.CSV") == found
    assert parse_csv("source_id,operator_index,source_name\n4,2,four\n").operators == entries({2: {4}})
    assert parse_origins(document(), "x.json").sources == {1: "one"}


BAD_CSV: list[tuple[str, str, str]] = [
    ("", "the header line lacks operator_index, source_id, source_name", "CSV:1"),
    ("operator_index,source_id\n", "the header line lacks source_name", "CSV:1"),
    (HEAD + "0,1,1,one,more\n", "the row has more fields than the header line", "CSV:2"),
    (HEAD + "0,1,1\n", "the row has fewer fields than the header line", "CSV:2"),
    (HEAD + "0,x,1,one\n", "`operator_index` must be a whole number below 2^32, not 'x'", "CSV:2"),
    (HEAD + "0,x,,\n", "`operator_index` must be a whole number below 2^32, not 'x'", "CSV:2"),
    (HEAD + "0,1,x,one\n", "`source_id` must be a whole number below 2^32, not 'x'", "CSV:2"),
    (HEAD + "x,1,1,one\n", "`subgraph` must be a whole number below 2^32, not 'x'", "CSV:2"),
    (HEAD + "0,1,1,one\n0,2,1,two\n", "source 1 has two names", "CSV:3"),
    (HEAD + '0,1,1,"one\n', "not CSV: unexpected end of data", "CSV:1"),
    (HEAD + "65536,1,1,one\n", "subgraph index 65536 is too large", "CSV"),
]


def test_what_is_wrong_with_a_csv_document() -> None:
    for text, message, place in BAD_CSV:
        with pytest.raises(InvalidInputError) as caught:
            parse_csv(text)
        assert (caught.value.message, caught.value.location) == (message, place)


# --- tables for people --------------------------------------------------------------------------------------


def test_the_origins_of_a_model_as_a_table() -> None:
    with open_model(embedded(ROW, SOME)) as model:
        table = describe(model)
        assert table.rows == (
            OperatorRow(0, 0, "TANH", "t0", frozenset({0})),
            OperatorRow(0, 1, "NEG", "t1", frozenset()),
            OperatorRow(0, 2, "RELU", "t2", frozenset({0, 1})),
        )
        assert table.by_source == {0: [(0, 0), (0, 2)], 1: [(0, 2)], 5: []}
        assert (table.format, table.subgraph_count, table.describes_the_model) == ("tflite", 1, True)
        message = "the table omits 1 of 3 operators; this is harmless outside the ONE compiler"
        assert table.notes == (Finding("PARTIAL_OP_TABLE", "info", "subgraphs[0].operators[1]", message),)
        assert origin_findings(model_graph(model)) == list(table.notes)


SELECTIONS: list[tuple[dict[str, Any], list[int], list[int]]] = [
    ({"operators": "0"}, [0], [0]),
    ({"operators": "1-2"}, [1, 2], [0, 1]),
    ({"operators": "1"}, [1], []),
    ({"source": "/y$"}, [2], [1]),
    ({"source": "/"}, [0, 2], [0, 1]),
    ({"source": "nobody"}, [], [5]),
    ({"operators": "0-1", "source": "b"}, [], []),
    ({"subgraph": 0}, [0, 1, 2], [0, 1]),
    ({}, [0, 1, 2], [0, 1, 5]),
]


def test_a_selection_of_operators_and_sources() -> None:
    for chosen, rows, sources in SELECTIONS:
        with open_model(embedded(ROW, SOME)) as model:
            table = describe(model, Selection.parse(**chosen))
        assert ([row.index for row in table.rows], list(table.by_source)) == (rows, sources)


def test_a_selection_that_is_none() -> None:
    with pytest.raises(UsageError, match=r"'\(' is not a valid regular expression: missing \)"):
        Selection.parse(source="(")
    with open_model(LOOP) as model:
        assert [row.subgraph for row in describe(model, Selection(subgraph=2)).rows] == [2, 2, 2]
        with pytest.raises(UsageError, match="subgraph 3 does not exist; the count is 3"):
            describe(model, Selection(subgraph=3))


def test_the_notes_of_a_table() -> None:
    with open_model(ROW) as model:
        table = describe(model)
        message = "the model has no origins; run `circletool embed-origins`"
        assert (table.notes, table.freshness) == ((Finding("NO_ORIGINS", "warning", "", message),), None)
        assert not table.describes_the_model
        assert [row.origin for row in table.rows] == [frozenset()] * 3
        assert origin_findings(model_graph(model)) == []
    with open_model(embedded(ROW, stamp=False)) as model:
        message = "the origins have no stamp that would reveal stale ones; `embed-origins --replace` adds one"
        assert describe(model).notes == (Finding("UNSTAMPED_ORIGIN", "info", "", message),)
        assert describe(model).describes_the_model
        assert origin_findings(model_graph(model)) == []
    with open_model(embedded(ROW, SOME, stamp=False)) as model:
        assert [note.code for note in describe(model).notes] == ["UNSTAMPED_ORIGIN", "PARTIAL_OP_TABLE"]
    shared = edited(
        embedded(LOOP, stamp=False), lambda edit: edit.set_metadata(OP_TABLE, encode_op_table({0: {0}, 2: {0}}))
    )
    with open_model(shared) as model:
        message = "one op table applies to all subgraphs, as in the ONE compiler"
        assert describe(model).notes[-1] == Finding("SHARED_OP_TABLE", "info", "", message)
        assert origin_findings(model_graph(model)) == []


def test_what_is_wrong_with_the_tables_of_a_model() -> None:
    def found(name: str, data: bytes, wanted: Any = SOME) -> list[tuple[str, str, str, str]]:
        with open_model(edited(embedded(ROW, wanted), lambda edit: edit.set_metadata(name, data))) as model:
            return [
                (one.code, one.severity, one.location, one.message) for one in origin_findings(model_graph(model))
            ]

    advice = "; run `circletool metadata remove --origins`"
    ((code, severity, place, message),) = found(SOURCE_TABLE, b"\1")
    assert (code, severity, place) == ("MALFORMED_ORIGIN_TABLE", "error", f"metadata {SOURCE_TABLE}")
    assert message.endswith(advice)
    assert [one[0] for one in found(OP_TABLE, b"\1")] == ["MALFORMED_ORIGIN_TABLE"]
    ((code, _, place, message),) = found(OP_TABLE, encode_op_table({0: {7}}))
    assert (code, place) == ("UNKNOWN_SOURCE_ID", f"metadata {OP_TABLE}")
    assert message == f"operator 0 refers to the missing source 7 at byte 12{advice}"
    assert [one[0] for one in found(SOURCE_TABLE, encode_source_table({}))] == ["UNKNOWN_SOURCE_ID"]
    assert [one[0] for one in found(EXACT_TABLE, u32s(1))] == ["MALFORMED_ORIGIN_TABLE"]
    assert [one[0] for one in found("other", b"\1")] == ["PARTIAL_OP_TABLE"]
    nothing = ("PARTIAL_OP_TABLE", "info", f"metadata {OP_TABLE}")
    assert [one[:3] for one in found("other", b"\1", origins({0: "a"}, {}))] == [nothing]


def test_tables_of_a_model_without_operators_name_nothing() -> None:
    with open_model(embedded(bytes_of("circle/only_input"), origins({0: "a"}, {}))) as model:
        assert origin_findings(model_graph(model)) == []


# --- output of tracking -------------------------------------------------------------------------------------


def test_tracking_lists_missing_origins_and_omits_uncertain_ones() -> None:
    before, after = chain("TANH", "FULLY_CONNECTED", "RELU"), chain("TANH", "FULLY_CONNECTED", "RELU", "EXP", "LOG")
    found = tracked(before, after)
    grounds = found.grounds[0]
    assert grounds[1][1].evidence is Evidence.CONSTANT
    least = grounds[1][1].confidence
    kept = {index for index, sources in grounds.items() if any(one.confidence >= least for one in sources.values())}
    assert set(tracked(before, after, least).grounds[0]) == kept
    assert set(tracked(before, after, 1.01).grounds[0]) == set()
    nothing = tracked(before, after, 1.01)
    assert nothing.without_origin == [(0, index) for index in range(5)]
    message = "there is no origin for 5 of 5 operators; complete the JSON for `embed-origins`"
    assert nothing.notes == (Finding("OPERATORS_WITHOUT_ORIGIN", "warning", "", message),)
    whole = tracked(before, before)
    assert (whole.notes, whole.without_origin, whole.carried) == ((), [], False)
    assert tracked(embedded(before), embedded(before)).carried
    assert not tracked(embedded(before), before).carried


def test_sources_without_tables_are_numbered_over_all_subgraphs() -> None:
    found = tracked(LOOP, LOOP)
    assert list(found.origins.sources) == [0, 1, 2, 3, 4]
    assert [len(subgraph) for subgraph in found.grounds] == [1, 1, 3]


def test_sources_without_tables_are_named_after_outputs() -> None:
    before = chain("TANH", "NEG", "RELU", names=["a", "", "c\0d"].__getitem__)
    assert tracked(before, before).origins.sources == {0: "a", 1: "(noname)", 2: "c"}
