"""Run each model in a separate process, and record the outcome."""

import ctypes
import importlib
import math
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tools.measure.copying.cases import (
    OUTCOMES,
    RUNTIMES,
    VARIANTS,
    Case,
    Shape,
    Trial,
    format_of,
    trials,
    type_names,
)
from tools.measure.copying.models import GUISES, build, quantization_of
from tools.measure.copying.values import feedable, rounds
from tools.measure.isolation import answers

Enter = Callable[[str], None]


class _WrongError(Exception):
    """The model ran, but the output differs from the input, or is not a separate tensor."""


class _UnfedError(Exception):
    """The interface cannot carry such a tensor."""


@cache
def _litert() -> Any:
    # Imported here, because no process may load both runtimes.
    return importlib.import_module("ai_edge_litert.interpreter")


def litert_probe(case: Case, trial: Trial, variant: str, enter: Enter) -> None:
    """Run one model in LiteRT; an exception ends the run, and `enter` receives each stage before it begins."""
    litert = _litert()
    resolvers = litert.OpResolverType
    enter("load")
    interpreter = litert.Interpreter(
        model_content=build(case, trial, variant),
        num_threads=1,
        experimental_op_resolver_type=resolvers.AUTO
        if variant == "default"
        else resolvers.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
    )
    for number, shape in enumerate(trial.runs):
        enter("prepare")
        if trial.signature is not None:
            index = interpreter.get_input_details()[0]["index"]
            # Once a string tensor has been fed, the interface considers its dimensions known.
            interpreter.resize_tensor_input(index, shape, strict=number == 0)
        interpreter.allocate_tensors()
        enter("run")
        _run_litert(interpreter, case, trial, shape)


def _run_litert(interpreter: Any, case: Case, trial: Trial, shape: Shape) -> None:
    if not feedable(case.type):
        interpreter.invoke()
        raise _UnfedError
    for elements in rounds(case.type, math.prod(shape)):
        if not shape and elements == (b"",):
            continue  # NumPy lacks such an array
        if interpreter.get_input_details() and elements:
            detail = interpreter.get_input_details()[0]
            interpreter.set_tensor(detail["index"], _array(elements, np.dtype(detail["dtype"]), shape))
        interpreter.invoke()
        for detail in interpreter.get_output_details():
            # The interface has no data for an empty tensor.
            value = interpreter.get_tensor(detail["index"]) if elements else np.empty(detail["shape"])
            if value.shape != shape or _elements(value) != elements:
                raise _WrongError
        _check_quantization(interpreter, case, trial)
        if elements and shape and case.type != "STRING":  # for others, the interface returns copies
            _check_memory(interpreter)
        if trial.constant:
            return


def _array(elements: Sequence[bytes], dtype: np.dtype[Any], shape: Shape) -> NDArray[Any]:
    if dtype.kind in "SO" and not shape:
        # In an object array without dimensions, the interface mistakes the address for the string.
        return np.frombuffer(elements[0], f"S{len(elements[0])}").reshape(())
    if dtype.kind in "SO":
        array = np.empty(len(elements), object)
        array[:] = elements
        return array.reshape(shape)
    return np.frombuffer(b"".join(elements), dtype).reshape(shape)


def _elements(array: NDArray[Any]) -> tuple[bytes, ...]:
    if array.dtype.kind in "SO":
        return tuple(map(bytes, array.flat))
    data, size = array.tobytes(), array.itemsize
    return tuple(data[at : at + size] for at in range(0, len(data), size))


def _check_quantization(interpreter: Any, case: Case, trial: Trial) -> None:
    if case.type in GUISES or case.quantization == "none":
        return
    wanted = quantization_of(case, trial)
    assert wanted is not None
    for detail in interpreter.get_output_details():
        found = detail["quantization_parameters"]
        lists = ([*found["scales"]], [*found["zero_points"]], found["quantized_dimension"])
        if lists != (wanted.scale, wanted.zero_point, wanted.quantized_dimension):
            raise _WrongError


def _check_memory(interpreter: Any) -> None:
    details = [*interpreter.get_input_details(), *interpreter.get_output_details()]
    places = {interpreter.tensor(detail["index"])().ctypes.data for detail in details}
    if len(places) < len(details):
        raise _WrongError


def onert_probe(case: Case, trial: Trial, variant: str, enter: Enter) -> None:
    """Run one model in onert; an exception ends the run, and `enter` receives each stage before it begins."""
    onert = _onert()
    with tempfile.NamedTemporaryFile(suffix=f".{variant}") as file:
        file.write(build(case, trial, variant))
        file.flush()
        enter("load")
        session = onert.Session()
        session("load_model_from_file", file.name.encode())
    session("set_available_backends", b"cpu")
    for number, shape in enumerate(trial.runs):
        if trial.signature is not None:
            enter("unfed")
            session.resize(0, shape)
        if number == 0:
            # The first resize precedes compilation, so the compiler knows it; the second one follows it.
            enter("prepare")
            session("prepare")
        _run_onert(session, case, trial, shape, enter)
    session("close_session")


@cache
def _onert() -> Any:
    return importlib.import_module("tests.kit.oracles.nnfw")


def _run_onert(session: Any, case: Case, trial: Trial, shape: Shape, enter: Enter) -> None:
    for elements in rounds(case.type, math.prod(shape)) if feedable(case.type) else [()]:
        data = b"".join(elements)
        enter("unfed")
        for info in session.infos("input"):
            session.feed(0, info.dtype, data)
        buffers = []
        for position, info in enumerate(session.infos("output")):
            # Unwritten bytes must not look like plausible zeros, and nothing after the tensor may be written.
            buffers.append((ctypes.c_char * (len(data) + 64)).from_buffer(bytearray(b"\xa5" * (len(data) + 64))))
            session.bind("output", position, info.dtype, buffers[-1])
        enter("run")
        session("run")
        if not feedable(case.type):
            raise _UnfedError
        for info, buffer in zip(session.infos("output"), buffers, strict=True):
            if bytes(buffer) != data + b"\xa5" * 64 or info.shape() != shape:
                raise _WrongError
        if trial.constant:
            return


PROBES: dict[str, Callable[[Case, Trial, str, Enter], None]] = {"litert": litert_probe, "onert": onert_probe}
PACKAGES: dict[str, Callable[[], Any]] = {"litert": _litert, "onert": _onert}


# ---------------------------------------------------------------------- the processes

Unit = tuple[Case, str]


def outcome(runtime: str, unit: Unit) -> str:
    """Return the worst outcome of a case's trials."""
    return max((_attempt(runtime, unit, trial) for trial in trials(unit[0])), key=[*OUTCOMES].index)


def _attempt(runtime: str, unit: Unit, trial: Trial) -> str:
    stages = ["load"]
    try:
        PROBES[runtime](unit[0], trial, unit[1], stages.append)
    except _WrongError:
        return "differs"
    except _UnfedError:
        return "unfed"
    except Exception as error:
        if type(error).__name__ not in {"RuntimeError", "ValueError", "StatusError"}:
            raise
        return stages[-1]
    return "exact"


def measure(runtime: str, units: Sequence[Unit]) -> list[str]:
    """Return the outcome of each unit; a process that crashes is replaced."""
    outcomes: list[str] = []
    while len(outcomes) < len(units):
        rest = units[len(outcomes) :]
        company = next((n for n, unit in enumerate(rest) if is_scalar_transpose(unit[0])), len(rest))
        outcomes += answers(rest[: company or 1], partial(outcome, runtime), PACKAGES[runtime])
    return outcomes


def is_scalar_transpose(case: Case) -> bool:
    """Return whether LiteRT reads uninitialized numbers, and may corrupt later runs in the same process."""
    return case.rank == 0 and case.form == "TRANSPOSE"


Results = dict[str, dict[Unit, str]]


def measure_all(found: Sequence[Case]) -> Results:
    """Return the outcomes: runtime -> case and variant -> outcome."""

    def one(runtime: str) -> dict[Unit, str]:
        units = [(case, v) for v in VARIANTS[runtime] for case in found if case.type in type_names(format_of(v))]
        return dict(zip(units, measure(runtime, units), strict=True))

    with ThreadPoolExecutor(len(RUNTIMES)) as threads:
        return dict(zip(RUNTIMES, threads.map(one, RUNTIMES), strict=True))
