"""What is looked for, in which order, and what keeps the rest from being looked at."""

from __future__ import annotations

import pytest

from circletools.check import check
from circletools.findings import Finding
from circletools.model.model import open_model
from tests.kit.affinity_support import affinity, annotated
from tests.kit.origin_support import embedded, origins, rebuilt
from tests.kit.support import bytes_of


def everything() -> bytes:
    """Return a model with findings of outputs, origins and affinity: the tables are of another model."""
    data = bytes_of("circle/output_twice")
    with open_model(data) as model:
        count = len(model.subgraphs[0].operators)
    tables = annotated(embedded(data, origins({0: "a"}, {0: {0}})), affinity(("cpu",), ([0] * count, [0] * count)))

    def rename(model: object) -> None:
        for tensor in model.subgraphs[0].tensors:  # type: ignore[attr-defined]
            tensor.name = b"x" + tensor.name

    return rebuilt(tables, rename)


@pytest.mark.parametrize("code", ["INDEX_OUT_OF_RANGE", "EXTERNAL_DATA_OUTSIDE_FILE", "SCHEMA_VERSION"])
@pytest.mark.parametrize("place", ["b", "b.debug_metadata_index"])
def test_only_an_index_error_prevents_other_checks(code: str, place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = Finding("NO_SUBGRAPH", "error", "a", "one"), Finding(code, "warning", place, "two")
    with open_model(everything()) as model:
        others = check(model)
        codes = [finding.code for finding in others]
        assert codes[0].endswith("OUTPUT") or "OUTPUT" in codes[0]
        assert "STALE_ORIGIN" in codes
        assert "STALE_AFFINITY" in codes
        monkeypatch.setitem(check.__globals__, "check_model", lambda _: [first, second])
        assert check(model) == [first, second, *([] if code == "INDEX_OUT_OF_RANGE" and place == "b" else others)]
