"""Rows of files that say one text very often, and tables with a cell that is very long."""

from __future__ import annotations

import pytest

import circletools as ct
from tests.kit.attacks.shared import shared_file
from tests.kit.build import Build


@pytest.mark.parametrize("name", ["code_of_many_operators", "source_of_many_operators", "name_of_many_readers"])
def test_a_text_in_very_many_rows_is_refused_or_costs_little(name: str) -> None:
    data = shared_file(name)
    with ct.open_model(data) as model:
        try:
            found = ct.inspect(model, operators=True, tensors=True)
        except ct.ModelFormatError as error:
            assert "the names " in str(error)  # noqa: PT017
            return
        assert sum(map(len, ct.render.inspection_text(found))) < 4 * len(data)


def test_a_long_cell_does_not_make_its_column_long() -> None:
    build = Build()
    graph = build.graph()
    last = first = graph.tensor("x")
    for number in range(100):
        last = graph.compute("ADD", [first, last], f"y{number}")
    graph.ends([first], [last])
    with ct.open_model(build.to_bytes()) as model:
        found = ct.inspect(model, tensors=True)
        lines = [line for line in ct.render.inspection_text(found) if line.endswith(" x")]
    assert len(found.tensor_rows or ()) == 101
    assert len((found.tensor_rows or ())[0]["consumers"]) == 100
    assert ["0,1,2," in line and "…" in line and len(line) < 200 for line in lines] == [True]
