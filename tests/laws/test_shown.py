"""What a notebook shows of results: each as a table, whatever names the model has."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from html.parser import HTMLParser
from itertools import islice

import pytest

import circletools as ct
from circletools.fit.verdicts import Cuts, TargetFit
from circletools.numerics.results import Cell, Column, Comparison, OperatorCells
from circletools.planning.measuring import Measurement, PartTime, PlanTime
from circletools.profile.compare import ComparedTime
from circletools.profile.comparisons import ComparedBucket, TraceComparison
from circletools.requires.minimum import Minimum
from circletools.requires.requirements import Requirement
from circletools.trace.operators.profile import OperatorRun, OperatorTrace
from circletools.wording import Tabular, counted
from tests.kit.build import Build
from tests.kit.trace_support import Ev, read

EVIL = "<script>alert('&amp;\"')</script></td>"


class Page(HTMLParser):
    """The rows of a table, as a browser reads them; any tag that is not a part of a table is an error."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.behind = ""
        self._open: list[str] = []
        self.feed(page)
        self.close()
        assert not self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert (tag in ("table", "tr", "td", "th", "p"), attrs) == (True, [])
        self._open.append(tag)
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self._open[-1] == "p":
            self.behind += data
        else:
            assert self._open[-1] in ("td", "th")
            self.rows[-1][-1] += data


def model() -> bytes:
    build = Build()
    graph = build.graph(EVIL)
    x = graph.tensor(EVIL, (1, 4))
    y = graph.compute("TANH", [x], EVIL, (1, 4))
    graph.ends([x], [y, y])
    return build.to_bytes("tflite")


@contextmanager
def opened() -> Iterator[ct.Model]:
    """Open a model with origins, whose names are hostile."""
    with ct.open(model()) as plain, ct.edit(plain) as edit:
        ct.origins.embed(edit, ct.origins.Origins({0: EVIL}, ({0: frozenset({0})},)))
        annotated = edit.to_bytes()
    with ct.open(annotated) as found:
        yield found


def results() -> Iterator[Tabular]:
    """Yield a result of each kind."""
    with opened() as found, ct.edit(found) as edit:
        yield ct.check(found)
        yield ct.checks.judge(ct.check(found), EVIL, ct.checks.CheckRequest())
        yield ct.origins.describe(found)
        plan = ct.plan(found, ct.PlanRequest(devices=(EVIL,), default=EVIL))
        yield plan
        yield Measurement((), (PlanTime(EVIL, (PartTime(EVIL, (0,)),)),))
        yield ct.inspect(found)
        edit.set_metadata(EVIL, b"")
        with ct.open(edit.to_bytes()) as named:
            yield ct.metadata.list(named)
        yield ct.cost(found, by="source")
        minimum = Minimum(None, None, False, "unknown")
        yield ct.types.Requirements(None, False, (Requirement("operator", EVIL, None, 1, (EVIL,)),), (), minimum)
        ct.affinity.annotate(edit, plan)
        yield ct.outputs.fix(edit)
        with ct.open(edit.to_bytes()) as after:
            yield ct.planning.inspect_affinity(after)
            yield ct.diff(found, after)
        fit = ct.fit(found, ct.FitRequest(on=("ethos-u55",)))
        yield from (one for one in fit.targets)
        yield ct.types.Fit("", "tflite", (TargetFit(EVIL, "", 1, (), (), Cuts(0, 0, 0), 0),), False, ())
        trace = OperatorTrace("litert", (OperatorRun(0, 0, "Tanh", EVIL, 0, 5, 0),), 1)
        yield ct.attribute(found, trace)
    times = OperatorTrace("litert", (OperatorRun(0, 0, EVIL, "", 0, 5, 0),), 1)
    yield times
    yield read([Ev(10, 1, f"[NN_LA_PO]{EVIL}"), Ev(20, 1, None)])
    yield ct.compare_profiles(times, times)
    time = ComparedTime(1, 2, 2.0, None, None, "cannot tell")
    column = Column("onert", EVIL, "", "")
    row = OperatorCells(0, 0, EVIL, EVIL, (EVIL,), "", "", 0, None, (Cell("ok"),))
    yield Comparison(EVIL, "", column, 1, (column,), (row,), (), ())
    yield TraceComparison((), (), 10.0, (ComparedBucket(EVIL, "PE", "run", time),))


RESULTS = list(results())


@pytest.mark.parametrize("result", RESULTS, ids=lambda result: type(result).__name__)
def test_a_browser_reads_the_rows(result: Tabular) -> None:
    rows = result.to_rows()
    head = list(rows[0])
    cells = [["" if cell is None else str(cell) for cell in row.values()] for row in rows]
    assert all(list(row) == head for row in rows)
    assert any("<script>" in cell for row in cells for cell in row)
    assert Page(result._repr_html_()).rows == [head, *cells]
    if not isinstance(result, list):
        assert repr(result) == f"<{type(result).__name__}: {counted(len(rows), 'row')}>"


def test_every_kind_of_result_is_there() -> None:
    # By name: a dataclass with slots is made twice.
    kinds = {kind.__name__ for kind in Tabular.__subclasses__() if kind.__module__.startswith("circletools.")}
    assert kinds == {type(result).__name__ for result in RESULTS}


def test_rows_beyond_200_are_counted() -> None:
    findings = ct.types.Findings(ct.Finding("NOT_USED", "info", str(place), EVIL) for place in range(203))
    page = Page(findings._repr_html_())
    assert [row[2] for row in islice(page.rows, 1, None)] == list(map(str, range(200)))
    assert page.behind == "3 more rows"


def test_findings_are_a_list() -> None:
    finding = ct.Finding("NOT_USED", "info", "", "")
    found = ct.types.Findings([finding])
    assert found == [finding]
    assert found.to_rows() == [{"code": "NOT_USED", "severity": "info", "location": "", "message": ""}]
    assert ct.types.Findings()._repr_html_() == "<table></table>"
