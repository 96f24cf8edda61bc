"""Times by operator, source and module as text, JSON and CSV."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from circletools.origin.source import SourceDetails
from circletools.profile.attribution import AddedTime, AmbiguousTime, Attribution, DelegatedGroup
from circletools.profile.joining import Spread, Time
from circletools.profile.shares import GroupTime, OperatorTime
from circletools.render.attribution import attribution_csv, attribution_json, attribution_text
from circletools.trace.operators.profile import Whole

EXPECTED = Path(__file__).with_name("expected") / "attribution.json"
DETAILS = SourceDetails("net", "m.Net", "net.py", 42, "aten.relu.default")
SPREAD = Spread(min_ns=600, p90_ns=850, p99_ns=900, spread_ns=200, median_low_ns=650, median_high_ns=750)
FOUND = Attribution(
    runtime="onert",
    executions=2,
    averaged=False,
    incomplete=1,
    total_ns=2000,
    operators=(
        OperatorTime(0, 0, "CONV_2D", "x", ("cpu", "npu"), (3, 4), Time(2, 1500, 700, SPREAD, 1500, 300), 7, 5000),
        OperatorTime(0, 1, "ADD", "y", (), (), Time(2, 301, None), 900),
        OperatorTime(1, 0, "RELU", "z", (), (4,), None),
        OperatorTime(1, 1, "MUL", "w", (), (), None),
        OperatorTime(1, 2, "SUB", "v", (), (), None),
    ),
    added=(
        AddedTime("inserted", 0, 7, "Permute", ("builtin",), Time(2, 199, 99, SPREAD)),
        AddedTime("inside", 0, 1, "part", (), Time(1, 50, None)),
    ),
    sources=(
        GroupTime(3, "net::a", ((0, 0),), True, Time(2, 750, 350)),
        GroupTime(4, "net::b", ((0, 0), (1, 0)), True, Time(2, 750, 350), DETAILS),
        GroupTime(5, "gone", ((1, 0),), False, Time(0, 0, 0)),
        GroupTime(None, None, ((0, 1),), False, Time(2, 301, None)),
    ),
    modules=(
        GroupTime(None, "net", ((0, 0), (1, 0)), False, Time(2, 1500, 700, SPREAD)),
        GroupTime(None, None, ((0, 1),), False, Time(2, 301, None)),
    ),
    types=(GroupTime(None, "CONV_2D", ((0, 0),), False, Time(2, 1500, 700, SPREAD)),),
    source_names={3: "net::a", 4: "net::b", 5: "gone"},
    named=False,
    unchecked=2,
    ignored=("mark",),
    ambiguous=(
        AmbiguousTime(("Copy (ND)",), ((0, 0), (0, 1)), 300),
        AmbiguousTime(("Add (ND)", "Clamp"), ((0, 0), (1, 4)), 301),
    ),
    medians_ns=1000,
    others=0,
    tick_ns=1000,
    groups=(DelegatedGroup("TfLiteGpuDelegateV2", ((1, 0), (1, 1)), Time(2, 400, 200, SPREAD), (300, 100)),),
    whole=Whole(2_000_000, (1500, 900), None, None, 3 << 20, 4),
    warm_up=1,
)
AVERAGED = replace(
    FOUND,
    averaged=True,
    executions=1,
    operators=(OperatorTime(0, 0, "ADD", "x", (), (), Time(2, 1500, None)),),
    added=(),
    ambiguous=(),
    groups=(),
    whole=Whole(5000, (), 7000, 3000),
)


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("attribution.txt", lambda: attribution_text(FOUND)),
        ("averages.txt", lambda: attribution_text(AVERAGED, ["type", "operator"])),
        ("attribution_top.txt", lambda: attribution_text(FOUND, ["operator", "source"], 1)),
    ],
)
def test_text(name: str, lines: Callable[[], Iterator[str]]) -> None:
    assert "\n".join(lines()) + "\n" == EXPECTED.with_name(name).read_text(encoding="utf-8")


def test_text_of_some_tables() -> None:
    by_delegate = replace(FOUND.operators[1], backends=("TfLiteGpuDelegateV2",))
    found = replace(FOUND, averaged=True, executions=1, added=(), operators=(by_delegate, *FOUND.operators[2:]))
    found = replace(found, whole=replace(FOUND.whole, program="label_image"))
    assert attribution_json(found, [])["executions"] is None
    lines = list(attribution_text(found, ["module"]))
    assert (lines[0], lines[8]) == ("label_image: averages; 1 of 4 operators timed, 2 more in 1 group", "modules")
    assert list(attribution_text(found, ["type"]))[-3].endswith(
        "0.701  35.0%      4    0.175  3          in TfLiteGpuDelegateV2"
    )


def test_a_csv_has_the_fields_of_a_table_of_the_json() -> None:
    times = "runs,total_ns,mean_ns,median_ns,share_percent,median_share_percent"
    spread = "min_ns,p90_ns,p99_ns,spread_ns,median_low_ns,median_high_ns"
    head, conv, add, relu, *_ = attribution_csv(FOUND).splitlines()
    assert head == (
        f"subgraph,operator_index,code,output,backends,sources,operand_bytes,macs,{times},{spread},"
        "delegated_ns,ambiguous_ns,rank,shared_rank"
    )
    assert conv == "0,0,CONV_2D,x,cpu npu,3 4,7,5000,2,1500,750.0,700,75.0,70.0,600,850,900,200,650,750,1500,300,1,1"
    assert add == "0,1,ADD,y,,,900,,2,301,150.5,,15.05,,,,,,,,0,0,2,2"
    assert relu == "1,0,RELU,z,,4,0" + "," * 17
    head, first, second, *_ = attribution_csv(FOUND, "source").splitlines()
    assert head == f"id,name,path,class,file,line,call,caller,operators,shared,{times},{spread}"
    assert first == "3,net::a,,,,,,,0/0,True,2,750,375.0,350,37.5,35.0,,,,,,"
    assert second.startswith("4,net::b,net,m.Net,net.py,42,aten.relu.default,,0/0 1/0,True,")
    assert attribution_csv(FOUND, "module").splitlines()[2] == ",,0/1,False,2,301,150.5,,15.05,,,,,,,"


def test_the_indistinguishable_row_with_more_bytes_is_first() -> None:
    time = Time(2, 1500, None)
    rows = [OperatorTime(0, at, f"OP{at}", "x", (), (), time, size) for at, size in enumerate((3, 5, 4))]
    found = replace(FOUND, operators=(*rows, OperatorTime(0, 3, "OP3", "x", (), (), None), FOUND.operators[0]))
    ranks = [(row["rank"], row["shared_rank"]) for row in attribution_json(found)["operators"]]
    assert ranks == [(4, 2), (2, 2), (3, 2), (None, None), (1, 1)]
    found = replace(found, groups=(), whole=Whole())
    table = list(attribution_text(found, ("operator",)))[6:10]
    assert [line.split()[0] for line in table] == ["1", "2=", "2=", "2="]
    assert [line.split()[8] for line in table] == ["CONV_2D", "OP1", "OP2", "OP0"]


def test_json() -> None:
    assert json.dumps(attribution_json(FOUND), indent=1) + "\n" == EXPECTED.read_text(encoding="utf-8")
    assert attribution_json(replace(FOUND, named=True), ())["sources_from"] == "output_names"
    assert attribution_json(replace(FOUND, total_ns=0))["operators"][0]["share_percent"] == 0.0
    shares = [row["share_percent"] for row in attribution_json(FOUND)["operators"]]
    assert [row["share_percent"] for row in FOUND.to_rows()] == shares


def test_the_tables_that_are_asked_for() -> None:
    for name in ("operator", "module"):
        assert set(attribution_json(FOUND, [name])) & {"operators", "sources", "modules"} == {f"{name}s"}
