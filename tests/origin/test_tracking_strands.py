"""Strands of a few operators through rewrites: which source each operator has, on what evidence, how sure.

A word is an operator code, behind a colon the name of what it makes; FC1 is FULLY_CONNECTED with constants
of its own, the first of several such. What is found reads operator=source:evidence confidence.
"""

from __future__ import annotations

import pytest

from circletools.origin.tracking.score import Evidence
from tests.kit.build import Build
from tests.kit.origin_support import entries
from tests.kit.tracking_support import own_constants, tracked


def strand(words: str) -> bytes:
    """Return a model whose operators take the value of the one before."""
    build = Build()
    graph = build.graph()
    value = start = graph.tensor("x", (4, 4))
    for word in words.split():
        code, _, name = word.partition(":")
        constants = own_constants(graph, int(code[2:])) if code.startswith("FC") else []
        code = "FULLY_CONNECTED" if constants else code
        value = graph.compute(code, [value, *constants], name, (4, 4))
    graph.ends([start], [value])
    return build.to_bytes()


SHORT = {
    Evidence.NAME: "name", Evidence.CONSTANT: "constant", Evidence.VALUES: "values", Evidence.POSITION: "place",
    Evidence.FUSED: "fused", Evidence.REGION: "region", Evidence.CONTINUED: "goes on",
}  # fmt: skip


def said(before: str, after: str) -> list[str]:
    """Return what is found in words."""
    (operators,) = tracked(strand(before), strand(after)).grounds
    return [
        f"{index}={source}:{SHORT[why.evidence]} {why.confidence:.3f}"
        for index, sources in sorted(operators.items())
        for source, why in sources.items()
    ]


WITHOUT_NAMES: list[tuple[str, str, list[str]]] = [
    ("TANH NEG RELU", "TANH NEG RELU", ["0=0:place 1.000", "1=1:place 1.000", "2=2:place 1.000"]),
    ("TANH NEG RELU", "TANH EXP RELU", ["0=0:place 0.016", "1=1:region 0.015", "2=2:place 0.016"]),
    ("TANH NEG RELU", "TANH RELU", ["0=0:place 0.711", "0=1:fused 0.703", "1=2:place 0.711"]),
    ("TANH TANH", "TANH TANH TANH", ["0=0:place 0.711", "2=1:place 0.711"]),
    ("TANH TANH TANH", "TANH TANH TANH", ["0=0:place 1.000", "1=1:place 1.000", "2=2:place 1.000"]),
    ("RESHAPE TANH", "TANH RESHAPE", ["0=1:region 0.000", "1=0:region 0.000"]),
    ("TANH", "NEG", ["0=0:region 0.000"]),
    ("TANH", "TANH", ["0=0:place 1.000"]),
]


def test_strands_without_names() -> None:
    for before, after, expected in WITHOUT_NAMES:
        assert said(before, after) == expected


WITH_CONSTANTS: list[tuple[str, str, list[str]]] = [
    ("FC1 FC2 FC3", "FC1 FC2 FC3", ["0=0:constant 1.000", "1=1:constant 1.000", "2=2:constant 1.000"]),
    ("FC1 FC2 FC3", "FC4 FC5 FC6", ["0=0:place 0.147", "1=1:place 0.147", "2=2:place 0.147"]),
    ("FC1 FC2 FC3", "FC1 FC5 FC6", ["0=0:constant 1.000", "1=1:place 0.873", "2=2:place 0.873"]),
    ("FC1 FC2", "NEG FC1 FC2", ["1=0:constant 1.000", "2=1:constant 1.000"]),
    ("TANH FC1 RELU", "TANH FC1", ["0=0:place 1.000", "1=1:constant 1.000", "1=2:fused 0.988"]),
    (
        "TANH FC1 RELU LOGISTIC",
        "TANH FC1 LOGISTIC",
        ["0=0:place 1.000", "1=1:constant 1.000", "1=2:fused 0.988", "2=3:place 1.000"],
    ),
    ("PAD FC1 TANH", "FC1 TANH", ["0=0:fused 0.988", "0=1:constant 1.000", "1=2:place 1.000"]),
    ("DEQUANTIZE FC1 TANH", "FC1 TANH", ["0=0:fused 0.988", "0=1:constant 1.000", "1=2:place 1.000"]),
    (
        "FC1 RESHAPE TRANSPOSE TANH",
        "FC1 TRANSPOSE TANH",
        ["0=0:constant 1.000", "1=1:fused 0.988", "1=2:place 1.000", "2=3:place 1.000"],
    ),
    ("FC1 NEG TANH", "FC1 NEG TANH", ["0=0:constant 1.000", "1=1:place 1.000", "2=2:place 1.000"]),
]


def test_strands_with_constants() -> None:
    """Constants say which models are kin, and which operators are each other."""
    for before, after, expected in WITH_CONSTANTS:
        assert said(before, after) == expected


REGIONS: list[tuple[str, str, list[str]]] = [
    (
        "FC1 NEG EXP ABS FC2",
        "FC1 GELU FC2",
        ["0=0:constant 0.999", "1=1:region 0.991", "1=2:region 0.991", "1=3:region 0.991", "2=4:constant 0.999"],
    ),
    (
        "FC1 GELU FC2",
        "FC1 NEG EXP ABS FC2",
        ["0=0:constant 0.999", "1=1:region 0.991", "2=1:region 0.991", "3=1:region 0.991", "4=2:constant 0.999"],
    ),
    (
        "FC1 NEG EXP FC2",
        "FC1 ABS SQRT FC2",
        [
            "0=0:constant 0.999",
            "1=1:region 0.849",
            "1=2:region 0.849",
            "2=1:region 0.849",
            "2=2:region 0.849",
            "3=3:constant 0.999",
        ],
    ),
    (
        "FC1 NEG EXP FC2",
        "FC1 EXP NEG FC2",
        ["0=0:constant 0.999", "1=2:region 0.991", "2=1:region 0.991", "3=3:constant 0.999"],
    ),
    (
        "FC1 NEG EXP ABS FC2",
        "FC1 FC2",
        ["0=0:constant 1.000", "0=1:fused 0.988", "0=2:fused 0.988", "0=3:fused 0.988", "1=4:constant 1.000"],
    ),
    (
        "FC1 NEG EXP ABS SQRT RELU FC2",
        "FC1 FC2",
        [
            "0=0:constant 1.000",
            "0=1:fused 0.965",
            "0=2:fused 0.965",
            "0=3:fused 0.965",
            "0=4:fused 0.965",
            "0=5:fused 0.965",
            "1=6:constant 1.000",
        ],
    ),
    (
        "FC1 NEG FC2 EXP FC3",
        "FC1 EXP FC2 NEG FC3",
        ["0=0:constant 0.999", "1=1:region 0.991", "2=2:constant 0.999", "3=3:region 0.991", "4=4:constant 0.999"],
    ),
    ("FC1 NEG FC2", "FC1 FC2 NEG", ["0=0:constant 1.000", "1=2:constant 1.000", "2=1:region 0.985"]),
    # What has become something else already is not what has moved.
    (
        "FC1 NEG FC2 ABS FC3",
        "FC1 FC2 NEG FC3",
        ["0=0:constant 1.000", "0=1:fused 0.988", "1=2:constant 0.999", "2=3:region 0.991", "3=4:constant 0.999"],
    ),
    (
        "FC1 NEG EXP FC2",
        "FC1 FC2 EXP NEG",
        ["0=0:constant 1.000", "1=3:constant 1.000", "2=2:region 0.985", "3=1:region 0.985"],
    ),
    (
        "FC1 ABS NEG FC2 FC3",
        "FC1 FC2 NEG ABS FC3",
        ["0=0:constant 1.000", "1=3:constant 1.000", "2=2:region 0.985", "3=1:region 0.985", "4=4:constant 1.000"],
    ),
    (
        "FC1 NEG FC2 FC3",
        "FC1 FC2 FC3 NEG",
        ["0=0:constant 1.000", "1=2:constant 1.000", "2=3:constant 1.000", "3=1:region 0.985"],
    ),
]


def test_regions_do_the_work_of_regions() -> None:
    for before, after, expected in REGIONS:
        assert said(before, after) == expected


PUT_IN: list[tuple[str, str, list[str]]] = [
    (
        "TANH FC1",
        "QUANTIZE TANH DEQUANTIZE QUANTIZE FC1 DEQUANTIZE",
        [
            "0=0:goes on 0.995",
            "1=0:place 1.000",
            "2=0:goes on 0.995",
            "3=0:goes on 0.995",
            "4=1:constant 1.000",
            "5=1:goes on 0.995",
        ],
    ),
    (
        "TANH FC1",
        "CAST TANH CAST FC1 CAST",
        ["0=0:goes on 0.880", "1=0:region 0.953", "2=0:goes on 0.880", "3=1:constant 0.999", "4=1:goes on 0.995"],
    ),
    ("TANH FC1", "NEG TANH NEG FC1 NEG", ["1=0:region 0.953", "3=1:constant 0.999"]),
    (
        "TANH FC1",
        "TANH RESHAPE RESHAPE FC1",
        ["0=0:place 1.000", "1=0:goes on 0.995", "2=0:goes on 0.995", "3=1:constant 1.000"],
    ),
    ("TANH QUANTIZE FC1", "TANH FC1", ["0=0:place 1.000", "0=1:fused 0.988", "1=2:constant 1.000"]),
]


def test_what_is_put_in_goes_on_with_what_is_before_it() -> None:
    for before, after, expected in PUT_IN:
        assert said(before, after) == expected


WITH_NAMES: list[tuple[str, str, list[str]]] = [
    ("TANH:a NEG:b RELU:c", "TANH:a NEG:b RELU:c", ["0=0:name 1.000", "1=1:name 1.000", "2=2:name 1.000"]),
    ("TANH:a FC1:b RELU:c", "TANH:a FC1:c", ["0=0:name 1.000", "1=1:constant 1.000", "1=2:fused 0.988"]),
    (
        "TANH:a NEG:b RELU:c",
        "TANH:a NEG:b_quantize RELU:c",
        ["0=0:name 1.000", "1=1:place 1.000", "2=2:name 1.000"],
    ),
    (
        "TANH:a FC1:b RELU:c",
        "TANH:a EXP:b_int8_dequant RELU:c",
        ["0=0:name 0.016", "1=1:region 0.016", "2=2:name 0.016"],
    ),
    (
        "TANH:a NEG:b EXP:c FC1:d",
        "TANH:a NEG:b;c FC1:d",
        ["0=0:name 1.000", "1=1:place 1.000", "1=2:fused 0.988", "2=3:name 1.000"],
    ),
    ("TANH:a NEG:b RELU:c", "TANH:a NEG:a;b RELU:c", ["0=0:name 1.000", "1=1:place 1.000", "2=2:name 1.000"]),
    ("TANH:a NEG:a RELU:c", "TANH:a NEG:b RELU:c", ["0=0:name 1.000", "1=1:place 1.000", "2=2:name 1.000"]),
    ("TANH:a FC1:b", "RELU:a FC1:b", ["0=0:region 0.979", "1=1:name 0.998"]),
    (
        "TANH:a NEG:b EXP:c ABS:d",
        "EXP:a ABS:b TANH:c NEG:d",
        ["0=2:region 0.000", "1=3:region 0.000", "2=0:region 0.000", "3=1:region 0.000"],
    ),
    (
        "NEG:a NEG:b NEG:c NEG:d",
        "NEG:b NEG:c NEG:d NEG:a",
        ["0=1:name 0.814", "1=2:name 0.814", "2=3:name 0.814", "3=0:region 0.802"],
    ),
    (
        "TANH:a FC1:b NEG:c EXP:d ABS:e SQRT:f RELU:g",
        "TANH:a FC1:g",
        [
            "0=0:name 1.000",
            "1=1:constant 1.000",
            "1=2:fused 0.988",
            "1=3:fused 0.988",
            "1=4:fused 0.988",
            "1=5:fused 0.988",
            "1=6:fused 0.988",
        ],
    ),
    (
        "TANH:a FC1:b NEG:c EXP:d ABS:e SQRT:f RELU:g LOGISTIC:h",
        "TANH:a FC1:h",
        [
            "0=0:name 1.000",
            "1=1:constant 1.000",
            "1=2:fused 0.988",
            "1=3:fused 0.988",
            "1=4:fused 0.988",
            "1=5:fused 0.988",
            "1=6:fused 0.988",
            "1=7:fused 0.988",
        ],
    ),
]


def test_names_are_believed_where_they_go_with_codes() -> None:
    """A converter adds words to names, and joins those of operators that it fused."""
    for before, after, expected in WITH_NAMES:
        assert said(before, after) == expected


PARTS: list[tuple[str, str, list[str]]] = [
    ("TANH:x/a RELU:x/b", "RELU:x/b", ["0=0:fused 0.988", "0=1:name 1.000"]),
    ("TANH:a RELU:b", "RELU:b", ["0=0:fused 0.020", "0=1:name 0.020"]),
    (
        "TANH:x/a NEG:x/b RELU:x/c EXP:x/d",
        "NEG:x/b RELU:x/c",
        ["0=0:fused 0.988", "0=1:name 1.000", "1=2:name 1.000", "1=3:fused 0.988"],
    ),
    (
        "TANH:x/a NEG:b RELU:x/c EXP:x/d",
        "NEG:b RELU:x/c",
        ["0=0:fused 0.769", "0=1:name 0.779", "1=2:name 0.779", "1=3:fused 0.769"],
    ),
]


def test_a_part_of_a_model_is_known_by_names_with_a_path() -> None:
    for before, after, expected in PARTS:
        assert said(before, after) == expected


def two_strands(turned: bool, signature: bool) -> bytes:
    """Return x -> NEG -> a and y -> NEG -> b in a subgraph behind another one; `turned`, the second comes first."""
    build = Build()
    main, graph = build.graph(), build.graph("two")
    main.ends([main.tensor("m")], [])
    ends = []
    for _ in range(2):
        given = graph.tensor("", (4, 4))
        ends.append((given, graph.compute("NEG", [given], "", (4, 4))))
    graph.ends([given for given, _ in ends], [made for _, made in ends])
    if signature:
        (x, a), (y, b) = ends[::-1] if turned else ends
        build.signature("two", [("x", x), ("y", y)], [("a", a), ("b", b)], subgraph=1)
    return build.to_bytes()


@pytest.mark.parametrize("signature", [True, False])
@pytest.mark.parametrize("turned", [True, False])
def test_inputs_and_outputs_are_known_by_the_names_of_a_signature(turned: bool, signature: bool) -> None:
    _, operators = tracked(two_strands(False, signature), two_strands(turned, signature)).origins.operators
    assert operators == ({0: {1}, 1: {0}} if turned and signature else {0: {0}, 1: {1}})


@pytest.mark.parametrize("subgraph", [1, 2])
def test_a_signature_of_a_subgraph_that_does_not_exist_says_nothing(subgraph: int) -> None:
    models = []
    for number in (subgraph, 0):
        build = Build()
        graph = build.graph()
        given = graph.tensor("", (4, 4))
        made = graph.compute("NEG", [given], "", (4, 4))
        graph.ends([given], [made])
        build.signature("main", [("x", given)], [("y", made)], subgraph=number)
        models.append(build.to_bytes())
    for before, after in (models, models[::-1], [models[0], models[0]]):
        assert tracked(before, after).origins.operators == entries({0: {0}})


@pytest.mark.parametrize("tensor", [3, 4, 5])
def test_a_tensor_of_a_signature_that_does_not_exist_says_nothing(tensor: int) -> None:
    build = Build()
    main, graph = build.graph(), build.graph("two")
    main.ends([main.tensor("m")], [])
    given = [graph.tensor("", (4, 4)) for _ in range(2)]
    made = [graph.compute("NEG", [one], "", (4, 4)) for one in given]
    graph.ends(given, made)
    build.signature("two", [("x", 0), ("y", tensor)], [("a", 2), ("b", tensor)], subgraph=1)
    data = build.to_bytes()
    assert tracked(data, data).origins.operators == entries({}, {0: {0}, 1: {1}})
