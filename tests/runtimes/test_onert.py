"""One inference in onert, over a library in Python that keeps books of each call of the C interface."""

from __future__ import annotations

import ctypes
import importlib
import math
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from circletools.runtimes.child import run_with
from circletools.runtimes.protocol import Array, Placed, RefusedError, Request, Verdict

FLOAT, INT, QUANTIZED, BOOL, BYTE, LONG, SMALL, SHORT = range(8)
DTYPES = ("float32", "int32", "uint8", "bool", "uint8", "int64", "int8", "int16")
VARIANT = "cpu"
_NUMBERS = (ctypes.c_int, ctypes.c_uint32, ctypes.c_size_t)
Form = tuple[int, tuple[int, ...]]


class Library:
    """Takes inputs of these forms; gives the first bytes of them, one behind the other, as outputs of those forms."""

    def __init__(self, inputs: Sequence[Form], outputs: Sequence[Form], final: Sequence[Form] | None = None) -> None:
        self.inputs, self.outputs, self.final = list(inputs), list(outputs), outputs if final is None else final
        self.calls: list[str] = []
        self.words: list[bytes] = []
        self.status: dict[str, int] = {}
        self.given: dict[int, tuple[int, Any, int]] = {}
        self.bound: dict[int, tuple[int, Any]] = {}
        self.lengths: dict[int, int] = {}
        self.prepared: list[Form] = []
        self.ran = False

    def __getattr__(self, name: str) -> Any:
        def call(handle: Any, *arguments: Any) -> int:
            self.calls.append(name.removeprefix("nnfw_"))
            if name == "nnfw_create_session":
                handle._obj.value = 77
            else:
                assert handle.value == 77
            if not self.status.get(name, 0):
                plain: Any = (one.value if isinstance(one, _NUMBERS) else one for one in arguments)
                getattr(self, f"do_{name.removeprefix('nnfw_')}", self.words.append)(*plain)
            return self.status.get(name, 0)

        if not name.startswith("nnfw_"):
            raise AttributeError(name)
        setattr(self, name, call)
        return call

    @staticmethod
    def report(info: Any, form: Form) -> None:
        info._obj.dtype, info._obj.rank = form[0], len(form[1])
        info._obj.dims[: len(form[1])] = form[1]

    def do_create_session(self) -> None:
        pass

    def do_close_session(self) -> None:
        pass

    def do_prepare(self) -> None:
        self.prepared = list(self.inputs)

    def do_input_size(self, count: Any) -> None:
        count._obj.value = len(self.inputs)

    def do_output_size(self, count: Any) -> None:
        count._obj.value = len(self.outputs)

    def do_input_tensorinfo(self, position: int, info: Any) -> None:
        self.report(info, self.inputs[position])

    def do_output_tensorinfo(self, position: int, info: Any) -> None:
        self.report(info, (self.final if self.ran else self.outputs)[position])

    def do_set_input_tensorinfo(self, position: int, info: Any) -> None:
        self.inputs[position] = info._obj.dtype, info._obj.shape()

    def do_set_input(self, position: int, dtype: int, buffer: Any, length: int) -> None:
        assert len(buffer) == max(length, 1)
        self.given[position] = dtype, buffer, length

    def do_set_output(self, position: int, dtype: int, buffer: Any, length: int) -> None:
        self.bound[position], self.lengths[position] = (dtype, buffer), length

    def do_run(self) -> None:
        data, self.ran = b"".join(buffer.raw[:length] for _, buffer, length in self.given.values()), True
        for position, (dtype, shape) in enumerate(self.final):
            size = min(math.prod(shape) * np.dtype(DTYPES[dtype]).itemsize, len(data))
            self.bound[position][1][:size], data = data[:size], data[size:]


@pytest.fixture
def onert(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Return the module, with a place for a library; nothing of it stays."""
    (tmp_path / "onert").mkdir()
    (tmp_path / "onert" / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    paths: list[str] = []

    def opened(path: str) -> Library:
        paths.append(path)
        return Library([], [])

    monkeypatch.setattr(ctypes, "CDLL", opened)
    names = ("onert", "circletools.runtimes.onert")
    for name in names:
        monkeypatch.delitem(sys.modules, name, raising=False)
    yield importlib.import_module("circletools.runtimes.onert")
    assert paths == [str(tmp_path / "onert" / "native" / "libonert.so")]
    for name in names:
        sys.modules.pop(name, None)


def use(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    module: ModuleType = sys.modules["circletools.runtimes.onert"]
    monkeypatch.setattr(module, "_LIBRARY", library)


def test_given_inputs_have_their_shapes(onert: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    library = Library([(BYTE, (2, 2)), (BOOL, (0,))], [(QUANTIZED, (3,))])
    use(library, monkeypatch)
    given: list[Array] = [np.array([[7, 8, 9]], np.uint8), np.zeros(0, bool)]
    answer = run_with(onert, Request("run", "m", VARIANT, [given], 0))
    assert (library.prepared, answer.failure) == ([(BYTE, (1, 3)), (BOOL, (0,))], "")
    assert answer.inputs == given
    assert [output.tolist() for output in answer.outputs] == [[7, 8, 9]]
    use(library, monkeypatch)
    for runs, words in (([given[:1]], "the number of inputs is 2, not 1"), ([given, [given[0].repeat(2), given[1]]],
            "an input has 6 bytes, but had 3 in the first run")):  # fmt: skip
        assert run_with(onert, Request("run", "m", VARIANT, runs, 0)).failure == words
        assert library.calls[-1] == "close_session"


@pytest.mark.parametrize(
    ("declared", "size"),
    [
        ((), 1 << 24),
        ((-1, 2), 1 << 24),
        ((3,), 1 << 16),
        ((0,), 1 << 16),
        ((1 << 14,), 1 << 16),
        (((1 << 14) + 1,), (1 << 16) + 4),
        ((256, 1024), 1 << 20),
    ],
)
def test_outputs_have_room(declared: tuple[int, ...], size: int, onert: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    library = Library([(FLOAT, (2,))], [(FLOAT, declared)], [(FLOAT, (5,))])
    use(library, monkeypatch)
    answer = run_with(onert, Request("run", "m", VARIANT, [[np.array([1, 2], np.float32)]], 0))
    assert library.lengths == {0: size}
    assert library.bound[0][1].raw[8:] == b"\xa5" * (size - 8)  # and no zeros
    (output,) = answer.outputs
    assert output[:2].tolist() == [1, 2]
    assert (output.shape, output[2:].tobytes()) == ((5,), b"\xa5" * 12)


@pytest.mark.parametrize(
    ("function", "status", "text"),
    [
        ("load_model_from_file", 1, "load_model_from_file: ERROR"),
        ("prepare", 2, "prepare: UNEXPECTED_NULL"),
        ("prepare", 3, "prepare: INVALID_STATE"),
        ("run", 4, "run: OUT_OF_MEMORY"),
        ("set_output", 5, "set_output: INSUFFICIENT_OUTPUT_SIZE"),
        ("set_available_backends", 6, "set_available_backends: DEPRECATED_API"),
        ("run", 7, "run: 7"),
        ("run", -1, "run: -1"),
    ],
)
def test_a_refusal_is_reported_by_the_name_of_its_call(
    function: str, status: int, text: str, onert: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = Library([(FLOAT, (2,))], [(FLOAT, (2,))])
    library.status[f"nnfw_{function}"] = status
    use(library, monkeypatch)
    answer = run_with(onert, Request("run", "m", VARIANT, None, 0))
    assert (answer.inputs, answer.outputs, answer.failure) == ([], [], f"StatusError: nnfw_{text}")
    assert library.calls[-2:] == [function, "close_session"]


@pytest.mark.parametrize(("form", "written"), [((FLOAT, (1,)), False), ((BYTE, (4,)), False), ((BYTE, (3,)), True)])
def test_an_output_of_which_no_byte_is_written_is_reported(
    form: Form, written: bool, onert: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Up to three bytes may have come out just so."""
    use(Library([(FLOAT, (2,))], [(FLOAT, (2,)), form]), monkeypatch)
    answer = run_with(onert, Request("run", "m", VARIANT, None, 0))
    assert answer.failure == ("" if written else "onert writes nothing to output 1")
    assert [output.tobytes() for output in answer.outputs[1:]] == [b"\xa5\xa5\xa5"] * written


@pytest.mark.parametrize(
    ("printed", "words", "codes"),
    [
        ("", "nnfw_prepare: ERROR", []),
        ("Fail:\n Unsupported operation: RNN\n", "Fail: Unsupported operation: RNN", ["RNN"]),
        ("NYI for operation 'InstanceNorm'", "NYI for operation 'InstanceNorm'", ["InstanceNorm"]),
    ],
)
def test_why_a_model_does_not_load_is_what_was_printed(
    printed: str, words: str, codes: list[str], onert: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = Library([(FLOAT, (2,))], [])
    use(library, monkeypatch)
    assert onert.placement(Request("placement", "m", VARIANT)) == Verdict("ok", others="cpu")
    library.status["nnfw_prepare"] = 1
    monkeypatch.setattr(onert, "printed", lambda _since: printed)
    with pytest.raises(RefusedError) as caught:
        onert.loads(Request("loads", "m", VARIANT))
    assert str(caught.value) == words
    assert caught.value.operators == tuple(Placed("", words, code=code) for code in codes)
    assert library.calls[-1] == "close_session"


def test_without_the_package_there_is_no_module(onert: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    load = onert._open_library
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(ModuleNotFoundError, match="onert is not installed"):
        load()
