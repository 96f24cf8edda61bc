"""Limits on partitions: what is asked for holds, what a rule says stays, and what cannot be met is named."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import combinations

import numpy as np
import pytest

from circletools.affinity.costs.evaluate import evaluate
from circletools.affinity.costs.problem import Links, Problem, make_problem
from circletools.affinity.limiting import Limiter, Room
from circletools.affinity.limits import KINDS, Limit, Weights, check_limits, parse_limit
from circletools.affinity.partition.partitions import Partition, make_partitions
from circletools.affinity.partitioning import Partitioning, Sizing, make_partitioning
from circletools.affinity.units import Units, make_units
from circletools.errors import EditError, UsageError
from circletools.graph.build import graph_of
from circletools.model.model import open_model
from tests.kit.affinity_support import assigned, unruled
from tests.kit.build import Build
from tests.kit.partition_support import check_partition, seeded

TWO = ("npu", "cpu")


def chain(codes: str, kind: str = "tflite") -> bytes:
    """Return operators one after the other: n NEG, t TANH, a ADD of a constant of 16 bytes."""
    build = Build()
    graph = build.graph()
    first = last = graph.tensor("x")
    for at, letter in enumerate(codes):
        code = {"n": "NEG", "t": "TANH", "a": "ADD"}[letter]
        more = [graph.constant(f"c{at}", np.ones((2, 2), np.float32))] if letter == "a" else []
        last = graph.compute(code, [last, *more], f"o{at}")
    graph.ends([first], [last])
    return build.to_bytes(kind)


def limited(data: bytes, *limits: str, rules: Sequence[str] = ("op:NEG=npu",), times: object = None) -> Partitioning:
    with open_model(data) as model:
        facts = graph_of(model, 0)
        given = unruled(assigned(model, TWO, *rules, default="cpu"))
        problems = None
        if times is not None:
            links = Links(np.array([[0, 1], [1, 0.0]]), np.zeros((2, 2)), np.array([2.0, 0]))
            problems = [make_problem(facts, np.array(times, np.float64), links)]
        parsed = tuple(map(parse_limit, limits))
        check_limits(parsed, TWO, has_costs=problems is not None)
        return make_partitioning([facts], given, Sizing(limits=parsed, problems=problems, fallback="cpu"))


def shown(made: Partitioning) -> str:
    """Return the partitions of a chain, in their order: operators counted, n on the NPU."""
    return " ".join(f"{'nc'[one.device]}{len(one.operators)}" for one in made.subgraphs[0].partitions)


@pytest.mark.parametrize(("codes", "limits", "expected"), [
    ("nntnnntn", (), "n2 c1 n3 c1 n1"),
    ("nntnnntn", ("npu:min-operators=2",), "n2 c1 n3 c2"),
    ("nntnnntn", ("npu:min-operators=3",), "c3 n3 c2"),
    ("nntnnntn", ("npu:min-operators=4",), "c8"),
    ("nntnnntn", ("npu:max-partitions=3",), "n2 c1 n3 c1 n1"),
    ("nntnnntn", ("npu:max-partitions=2",), "n2 c1 n3 c2"),
    ("nntnnntn", ("npu:max-partitions=1",), "c3 n3 c2"),
    ("nntnnntn", ("npu:max-partitions=0",), "c8"),
    ("nntnnntn", ("npu:max-operators=2",), "n2 c1 n2 n1 c1 n1"),
    ("nntnnntn", ("npu:max-operators=1",), "n1 n1 c1 n1 n1 n1 c1 n1"),
    ("nntnnntn", ("npu:max-operators=2", "npu:min-operators=2"), "n2 c1 n2 c3"),
    ("nntnnntn", ("npu:max-bytes=47",), "n2 c1 n2 n1 c1 n1"),
    ("nntnnntn", ("npu:max-bytes=48",), "n2 c1 n3 c1 n1"),
    ("nntnnntn", ("npu:min-bytes=33",), "c3 n3 c2"),
    ("nntnnntn", ("npu:min-bytes=32",), "n2 c1 n3 c2"),
    ("nntnnntn", ("npu:max-partitions=2", "npu:max-operators=2"), "n2 c1 n2 c3"),
    ("nnnnnnnnnn", ("npu:max-operators=4", "npu:min-operators=3"), "n3 n3 n4"),
])  # fmt: skip
def test_limits_hold(codes: str, limits: tuple[str, ...], expected: str) -> None:
    assert shown(limited(chain(codes), *limits)) == expected


def test_what_left_says_why() -> None:
    made = limited(chain("nntnnntn"), "npu:min-operators=2").subgraphs[0]
    assert made.moved == {7: "its partition was too small on npu: limit npu:min-operators=2"}
    made = limited(chain("nntnn"), "npu:max-partitions=1").subgraphs[0]
    assert made.moved == dict.fromkeys((0, 1), "other partitions save more on npu: limit npu:max-partitions=1")
    made = limited(chain("nan"), "npu:max-bytes=31", rules=("op:*=npu",)).subgraphs[0]
    assert made.moved == {1: "limit npu:max-bytes=31: it is larger"}
    assert [one.device for one in made.partitions] == [0, 1, 0]


def test_those_that_save_most_stay() -> None:
    """The one of a single operator saves 90 us, that of three 10 us less two copies and a launch."""
    times = [[5, 9], [5, 8], [5, 8], [9, 1], [10, 100], [9, 1]]
    one = limited(chain("nnntnt"), "npu:max-partitions=1")
    assert shown(one) == "n3 c3"
    assert shown(limited(chain("nnntnt"), "npu:max-partitions=1", times=times)) == "c4 n1 c1"
    assert shown(limited(chain("nnntnt"), "npu:min-us=10", times=times)) == "n3 c1 n1 c1"
    assert shown(limited(chain("nnntnt"), "npu:min-us=11", times=times)) == "n3 c3"
    assert shown(limited(chain("nnntnt"), "npu:min-us=15.5", times=times)) == "c6"


@pytest.mark.parametrize("seed", range(8))
def test_what_stays_saves_most_by_trying_everything(seed: int) -> None:
    generator = seeded(seed)
    codes = "t".join("n" * generator.randint(1, 3) for _ in range(6))
    times = [[generator.uniform(0, 9), generator.uniform(0, 20)] for _ in codes]
    most = generator.randint(1, 5)
    with open_model(chain(codes)) as model:
        facts = graph_of(model, 0)
        links = Links(np.array([[0, 1], [1, 0.0]]), np.zeros((2, 2)), np.array([2.0, 0]))
        problem = make_problem(facts, np.array(times), links)
        devices = [int(letter == "t") for letter in codes]
        own = [one.operators for one in make_partitions(facts.dag, devices) if one.device == 0]
        totals = []
        for stay in combinations(own, most):
            kept = {operator for row in stay for operator in row}
            numbers = [0 if operator in kept else 1 for operator in range(len(codes))]
            launched = [one.device for one in make_partitions(facts.dag, numbers)]
            totals.append(evaluate(problem, numbers, launched).total_us)
        made = limited(chain(codes), f"npu:max-partitions={most}", times=times).subgraphs[0]
        found = evaluate(problem, made.numbers, [one.device for one in made.partitions])
    assert sum(one.device == 0 for one in made.partitions) == most
    assert found.total_us == pytest.approx(min(totals))


def test_of_many_partitions_those_that_save_most_stay() -> None:
    """Twenty saving 1 to 20 us more than the copies: too many choices to try."""
    codes = "nt" * 20
    times = [[0, 2 + 2 + 1 + at / 2] if letter == "n" else [9, 1] for at, letter in enumerate(codes)]
    made = limited(chain(codes), "npu:max-partitions=6", times=times).subgraphs[0]
    assert [one.operators[0] for one in made.partitions if one.device == 0] == [28, 30, 32, 34, 36, 38]


@pytest.mark.parametrize(("limit", "rule", "said"), [
    ("npu:min-operators=2", "index:0=npu", "a partition of 1 operator stays on npu (operators 0: rule"),
    ("npu:max-partitions=1", "index:0,2,4=npu", "3 partitions, 3 of which stay on npu (operators 0: rule"),
    ("npu:max-bytes=15", "index:0=npu", "a partition of 16 bytes stays"),
    ("cpu:max-partitions=0", "index:0=npu", "1 partition, 1 of which stay on cpu (operators 1-4: no other device"),
])  # fmt: skip
def test_what_cannot_be_met_is_named(limit: str, rule: str, said: str) -> None:
    with open_model(chain("nnnnn")) as model:
        given = assigned(model, TWO, rule, default="cpu")
        sizing = Sizing(limits=(parse_limit(limit),), fallback="cpu")
        with pytest.raises(EditError) as caught:
            make_partitioning([graph_of(model, 0)], given, sizing)
    assert f"limit {limit} cannot be met: {said}" in str(caught.value)
    assert caught.value.location == "subgraphs[0]"


@pytest.mark.parametrize("seed", range(60))
def test_random_graphs_keep_to_limits(seed: int) -> None:
    generator = seeded(seed)
    build = Build()
    graph = build.graph()
    given = graph.tensor("x")
    made, read = [given], set()
    for at in range(generator.randint(4, 40)):
        feeders = generator.sample(made[-6:], min(2, len(made[-6:])))
        read |= set(feeders)
        made.append(graph.compute("ADD", [feeders[0], feeders[-1]], f"o{at}"))
    graph.ends([given], [tensor for tensor in made[1:] if tensor not in read])
    least, most = generator.randint(1, 3), generator.randint(3, 9)
    words = (
        f"npu:min-operators={least}",
        f"npu:max-operators={most}",
        f"npu:max-partitions={generator.randint(0, 4)}",
    )
    with open_model(build.to_bytes("tflite")) as model:
        facts = graph_of(model, 0)
        rules = ",".join(str(at) for at in range(len(facts)) if generator.random() < 0.7) or "0"
        assignment = unruled(assigned(model, TWO, f"index:{rules}=npu", default="cpu"))
        limits = tuple(map(parse_limit, words))
        found = make_partitioning([facts], assignment, Sizing(limits=limits)).subgraphs[0]
        check_partition(facts.dag, found.numbers, found.partitions, connected=True)
    sizes = [len(one.operators) for one in found.partitions if one.device == 0]
    assert all(least <= size <= most for size in sizes)
    assert len(sizes) <= limits[2].number
    left = Counter(assignment.numbers[0])[0] - sum(sizes)
    assert left == len(found.moved)


@pytest.mark.parametrize(("words", "said"), [
    ("npu:max-partitions", "is not DEVICE:KIND=NUMBER"),
    ("npu=3", "is not DEVICE:KIND=NUMBER"),
    (":max-partitions=3", "is not DEVICE:KIND=NUMBER"),
    ("npu:max-partition=3", "did you mean 'max-partitions'?"),
    ("npu:max-partitions=x", "'x' is no number from 0 to 1e15"),
    ("npu:max-partitions=1.5", "'1.5' is no number"),
    ("npu:max-partitions=-1", "'-1' is no number"),
    ("npu:min-us=nan", "'nan' is no number"),
    ("npu:min-us=inf", "'inf' is no number"),
])  # fmt: skip
def test_limits_that_are_none(words: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_limit(words)
    assert said in str(caught.value)


def test_limits_are_read_as_they_are_written() -> None:
    assert parse_limit("a:b:min-us=2.5") == Limit("a:b", "min-us", 2.5)
    for kind in KINDS:
        limit = parse_limit(f"npu:{kind}=12")
        assert (str(limit), limit.measure) == (f"limit npu:{kind}=12", kind.split("-")[1])
        assert limit.parts is (kind in ("max-operators", "max-bytes"))


@pytest.mark.parametrize(("words", "error", "said"), [
    (("gpu:max-partitions=1",), UsageError, "device 'gpu' is not among the devices"),
    (("npu:min-us=1",), UsageError, "limit npu:min-us=1 needs costs"),
    (("npu:min-bytes=1", "npu:min-bytes=2"), UsageError, "a second min-bytes for 'npu'"),
    (("npu:max-bytes=4", "npu:min-bytes=5"), EditError, "npu:min-bytes=5 and limit npu:max-bytes=4 cannot be met"),
])  # fmt: skip
def test_limits_that_make_no_sense(words: tuple[str, ...], error: type[Exception], said: str) -> None:
    check_limits([parse_limit("npu:max-bytes=5"), parse_limit("npu:min-bytes=5")], TWO, has_costs=False)
    check_limits([parse_limit("cpu:max-bytes=4"), parse_limit("npu:min-bytes=5")], TWO, has_costs=False)
    check_limits([parse_limit("npu:min-us=4")], TWO, has_costs=True)
    with pytest.raises(error) as caught:
        check_limits(tuple(map(parse_limit, words)), TWO, has_costs=False)
    assert said in str(caught.value)


def test_what_partitions_weigh() -> None:
    with open_model(chain("aan")) as model:
        facts = graph_of(model, 0)
        links = Links(np.zeros((2, 2)), np.zeros((2, 2)), np.zeros(2))
        problem = make_problem(facts, np.array([[1, 2], [np.inf, 4], [8, 16]]), links)
        weigh = Weights(facts, make_units(facts), problem).of
        assert [weigh("operators", units, 0) for units in ([], [1], [0, 2])] == [0, 1, 2]
        assert [weigh("bytes", units, 0) for units in ([], [2], [0, 1], [0, 1, 2])] == [0, 16, 64, 80]
        assert [weigh("us", units, device) for units, device in (([0, 1], 0), ([0, 1, 2], 1))] == [1, 22]


# --- how much is tried --------------------------------------------------------------------------------------


class Counting(Limiter):
    """A limiter of so many units that notes what it takes the total time without."""

    def __init__(self, count: int) -> None:
        no_links = Links(np.zeros((2, 2)), np.zeros((2, 2)), np.zeros(2))
        none = np.zeros(0, np.int64)
        problem = Problem(np.zeros((count, 2)), none, np.zeros(0), none, none, no_links)
        self.partitioned, self.totals = 0, list[list[int]]()
        room = Room(
            Units.__new__(Units), [], 1, Weights.__new__(Weights), problem,
            lambda *_: True, lambda _: None, (0, 1), lambda _: True,
        )  # fmt: skip
        super().__init__(room, self.made)
        self._numbers = [0] * count

    def made(self, numbers: Sequence[int]) -> tuple[Partition, ...]:
        self.partitioned += 1
        return ()

    def _total_without(self, gone: Sequence[Partition]) -> float:
        self.totals.append([partition.operators[0] for partition in gone])
        return float(-min(self.totals[-1]))


@pytest.mark.parametrize(
    ("units", "partitions", "surplus", "every"),
    [(1000, 25, 2, True), (1001, 25, 2, False), (1000, 26, 2, False), (100, 26, 2, False), (1000, 300, 1, True),
     (1000, 301, 1, False), (1200, 250, 1, True), (1201, 250, 1, False)],
)  # fmt: skip
def test_up_to_three_hundred_choices_of_what_leaves_are_tried(
    units: int, partitions: int, surplus: int, every: bool
) -> None:
    """And as long as no more than 300,000 operators are partitioned for that."""
    limiter = Counting(units)
    able = [Partition(0, (at,)) for at in range(partitions)]
    found = [one.operators[0] for one in limiter._least(able, surplus)]
    choices = combinations(range(partitions), surplus) if every else ((at,) for at in range(partitions))
    assert limiter.totals == [list(choice) for choice in choices]
    assert found == (list(range(partitions - surplus, partitions)) if every else [partitions - 1])
    if not every:  # of seven half are moved at once
        many = [one.operators[0] for one in limiter._least(able, 7)]
        assert many == [partitions - 1, partitions - 2, partitions - 3]


@pytest.mark.parametrize(("units", "partitioned"), [(1000, 1), (1001, 0)])
def test_of_more_than_a_thousand_units_launches_are_those_that_go(units: int, partitioned: int) -> None:
    limiter = Counting(units)
    Limiter._total_without(limiter, [Partition(0, (0,))])
    assert limiter.partitioned == partitioned
