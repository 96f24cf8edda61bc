"""What the files of parts show about variables without running: who sets them first, and the order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from circletools.model.model import open_model
from circletools.parts.compare import check_files, open_split
from tests.kit.build import Graph
from tests.kit.split_support import by_list, split_to, state_of, with_devices
from tests.kit.support import packed, unpacked
from tests.parts.test_split_state import Streaming


@pytest.fixture
def parts(tmp_path: Path) -> Path:
    """Parts of a model that reads a variable before and after it is set, and another that is only read."""
    model = Streaming(2, 2)
    before = model.read(0)
    model.assign(0, model.x)
    difference = model.compute("SUB", before, model.read(0))
    data = model.finish(model.compute("ADD", model.compute("NEG", difference), model.read(1)))
    split_to(with_devices(data, by_list([0] * 7 + [1] * 3), "min"), tmp_path / "parts", "tflite")
    assert check_files(open_split(tmp_path / "parts")) == []
    return tmp_path / "parts"


def changed(parts: Path, number: int, change: Any) -> list[tuple[str, str]]:
    """Change the operators of a part; return codes and words of what is found."""
    files = open_split(parts)
    path = files.part(number)
    model = unpacked(path.read_bytes())
    change(model.subgraphs[0].operators)
    path.write_bytes(packed(model, b"TFL3"))
    return [(one.code, one.message) for one in check_files(files)]


def test_the_first_writer_of_a_variable_is_in_each_part(parts: Path) -> None:
    files = open_split(parts)
    message = f"CALL_ONCE is not in {files.connections.parts[1].file}, whose operators need it"
    assert changed(parts, 1, lambda operators: operators.pop(0)) == [("OPERATORS_DIFFER", message)]


def test_what_is_read_follows_what_was_first_set(parts: Path) -> None:
    found = changed(parts, 0, lambda operators: operators.pop(0))
    assert found[0][1].startswith("READ_VARIABLE of model.part.00001_npu.tflite is not in the original model")


def test_an_initialiser_that_reads_what_others_write_is_not_copied() -> None:
    model = Streaming(2, 1)
    second = Graph(model.build, "second")
    value = second.compute("READ_VARIABLE", [Streaming.handle(second, 0)], "value", (1, 4))
    second.operator("ASSIGN_VARIABLE", [Streaming.handle(second, 1), value], [])
    second.ends([], [])
    model.assign(0, model.x)
    model.graph.operator("CALL_ONCE", [], [], init_subgraph_index=2)
    with open_model(model.finish(model.read(1))) as opened:
        state = state_of(opened, 0)
    assert sorted(state.copied) == [0, 1, 2]
    assert state.users == {"variable 'state0'": [3, 4], "variable 'state1'": [4, 5]}


def test_what_is_read_depends_on_what_was_set_before(parts: Path) -> None:
    def exchange(operators: list[Any]) -> None:
        (sub,) = [one for one in operators if len(one.inputs) == 2 and len(one.outputs) == 1]
        sub.inputs = sub.inputs[::-1]

    def later(operators: list[Any]) -> None:
        at = next(index for index, one in enumerate(operators) if not len(one.outputs) and len(one.inputs))
        operators[at], operators[at + 1] = operators[at + 1], operators[at]

    def once_later(operators: list[Any]) -> None:
        at = next(index for index, one in enumerate(operators) if not len(one.outputs) and len(one.inputs))
        operators.insert(at, operators.pop(0))

    for change in (exchange, later, once_later):
        kept = open_split(parts).part(0).read_bytes()
        assert "OPERATORS_DIFFER" in {code for code, _ in changed(parts, 0, change)}
        open_split(parts).part(0).write_bytes(kept)
