"""One inference in LiteRT, and the program around it, with a module in the place of LiteRT."""

from __future__ import annotations

import sys
from multiprocessing import Pipe
from threading import Thread
from typing import Any

import numpy as np
import pytest

from circletools.runtimes.child import run_with, serve
from circletools.runtimes.inputs import make_input
from circletools.runtimes.plan import Plan, Step
from circletools.runtimes.protocol import Array, Missing, Placed, RefusedError, Request, Verdict, same
from tests.kit.fake_programs import adapter

NAMES = ("ai_edge_litert", "ai_edge_litert.interpreter")
FLOAT = np.dtype(np.float32)
VARIANT = "builtin"


class Interpreter:
    """Takes a matrix and a row, and gives them back in the other order; `model_path` selects the failure."""

    def __init__(self, model_path: str, num_threads: int, experimental_op_resolver_type: str) -> None:
        assert (num_threads, experimental_op_resolver_type) == (1, "without delegates")
        self.model, self.calls = model_path, list[tuple[Any, ...]]()
        self.values: dict[int, Array] = {}
        Interpreter.last = self

    last: Interpreter

    InputIndices, OutputIndices = lambda _: np.array([9, 4]), lambda _: np.array([4, 9])
    TensorType = lambda *_: np.float32  # noqa: E731
    TensorSize = lambda _, index, graph: {9: np.array([2, 3]), 4: np.array([3])}[index]  # noqa: E731
    _interpreter = property(lambda self: self)

    def resize_tensor_input(self, index: int, shape: tuple[int, ...]) -> None:
        self.calls.append(("resize", index, tuple(shape)))

    def allocate_tensors(self) -> None:
        self.calls.append(("allocate",))
        if self.model == "refused":
            raise RuntimeError("no")
        if self.model == "silent":
            raise ValueError
        if self.model == "large":
            raise MemoryError("too large")
        if self.model == "in vain":
            raise RuntimeError("failed to delegate ADD node #1")

    def set_tensor(self, index: int, value: Array) -> None:
        self.calls.append(("set", index))
        self.values[index] = value

    def invoke(self) -> None:
        self.calls.append(("invoke",))

    def get_tensor(self, index: int) -> Array:
        value = self.values[index]
        return value.view(np.dtype("V4")) if self.model == "opaque" else value


@pytest.fixture
def litert(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return the module."""
    resolvers = type("OpResolverType", (), {"BUILTIN_WITHOUT_DEFAULT_DELEGATES": "without delegates"})
    modules: tuple[dict[str, Any], ...] = {}, {"Interpreter": Interpreter, "OpResolverType": resolvers}
    return adapter("litert", dict(zip(NAMES, modules, strict=True)), monkeypatch)


@pytest.mark.parametrize("count", [0, 1, 3])
def test_another_number_of_inputs_is_reported(count: int, litert: Any) -> None:
    answer = run_with(litert, Request("run", "m", VARIANT, [[np.ones(3, np.float32)] * count], 0))
    assert (answer.inputs, answer.outputs) == ([], [])
    assert answer.failure == f"the number of inputs is 2, not {count}"


@pytest.mark.parametrize(
    ("model", "message"),
    [("refused", "RuntimeError: no"), ("silent", "ValueError:"), ("large", "MemoryError: too large")],
)
def test_a_refusal_is_an_answer(model: str, message: str, litert: Any) -> None:
    answer = run_with(litert, Request("run", model, VARIANT, None, 0))
    assert (answer.inputs, answer.outputs, answer.failure) == ([], [], message)


def test_the_program_answers_until_the_connection_is_closed(litert: Any) -> None:
    ours, theirs = Pipe()
    descriptor = theirs.fileno()
    program = Thread(target=serve, args=("litert", "numpy", descriptor), daemon=True)
    program.start()
    assert ours.recv() == np.__version__
    for seed in (1, 2):
        ours.send(Request("run", "m", VARIANT, None, seed))
        assert ours.poll(60)
        answer = ours.recv()
        assert same(answer.inputs, [make_input(seed, 0, FLOAT, (2, 3)), make_input(seed, 1, FLOAT, (3,))]) is None
    ours.close()
    program.join(60)
    assert not program.is_alive()
    theirs._handle = None  # type: ignore[attr-defined]  # the program closed it


def test_the_program_needs_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in NAMES:  # which an earlier test may have imported
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delitem(sys.modules, "circletools.runtimes.litert", raising=False)
    ours, theirs = Pipe()
    serve("litert", "ai-edge-litert", theirs.fileno())
    theirs._handle = None  # type: ignore[attr-defined]  # the program closed it
    missing = ours.recv()
    assert isinstance(missing, Missing)
    assert "ai_edge_litert" in missing.text


@pytest.mark.parametrize(("model", "message"), [("m", "no plan"), ("refused", "no")])
def test_the_first_of_two_refusals_is_reported(
    model: str, message: str, litert: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def plans(_interpreter: Interpreter) -> list[Plan]:
        raise RuntimeError("no plan")

    monkeypatch.setattr(litert, "plans", plans)
    with pytest.raises(RefusedError, match=f"^{message}$"):
        litert.placement(Request("placement", model, VARIANT))


@pytest.mark.parametrize(
    ("model", "named", "verdict"),
    [
        ("m", Placed("xnnpack", "", 0, 1), Verdict("ok")),
        (
            "in vain",
            Placed("", "failed to delegate ADD node #1", 0, 1),
            Verdict("refused", "failed to delegate ADD node #1"),
        ),
    ],
)
def test_operators_chosen_but_not_delegated_have_no_place(
    model: str, named: Placed, verdict: Verdict, litert: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan: Plan = Step((0, 1), "TfLiteXNNPackDelegate"), Step((2,))
    monkeypatch.setattr(litert, "plans", lambda _: [plan, (Step((1,)),)])
    found = litert.placement(Request("placement", model, VARIANT))
    assert (found.status, found.words) == (verdict.status, verdict.words)
    others = Placed("cpu", "", 0, 2), Placed("cpu", "", 1, 1)
    assert found.operators == (Placed("xnnpack", "", 0, 0), named, *others)
