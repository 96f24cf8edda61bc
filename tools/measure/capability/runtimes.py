"""The devices, and functions that ask each whether it accepts an operator."""

import contextlib
import importlib
import importlib.metadata
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, Protocol

import numpy as np

from circletools.runtimes.plan import plans
from tools.measure import litert_plugin
from tools.measure.capability import accelerators
from tools.measure.capability.single import Operand, Probe, array
from tools.measure.capability.template import LAST_VERSION

TAKEN = "taken"
LEFT = "left"  # left to others, while the rest of the model is accepted


class Question(Protocol):
    """A model, and the index of the operator to ask about."""

    @property
    def model(self) -> bytes:
        """The file."""

    @property
    def focus(self) -> int:
        """The operator index in the first subgraph."""


def _litert() -> Any:
    # Imported here, because no process may load two runtimes.
    return importlib.import_module("ai_edge_litert.interpreter")


def ask_litert(question: Question) -> str:
    """Load, allocate and run a model without delegates."""
    litert = _litert()
    resolver = litert.OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    stage = "load"
    try:
        interpreter = litert.Interpreter(
            model_content=question.model, num_threads=1, experimental_op_resolver_type=resolver
        )
        stage = "prepare"
        interpreter.allocate_tensors()
        stage = "run"
        _feed(interpreter, question)
        interpreter.invoke()
        for key in interpreter.get_signature_list():  # their subgraphs are prepared when they are called
            runner = interpreter.get_signature_runner(key)
            ends = runner.get_input_details().items()
            runner(**{name: np.zeros(detail["shape"], detail["dtype"]) for name, detail in ends})
    except (RuntimeError, ValueError, MemoryError) as error:
        return "prepare" if "failed to prepare" in str(error) else stage
    return TAKEN


def _feed(interpreter: Any, question: Question) -> None:
    operands = [operand for operand in getattr(question, "inputs", ()) if operand.kind == "computed"]
    details = interpreter.get_input_details()
    for detail, operand in zip(details, operands, strict=False):
        value = array(operand)
        if value is not None:
            interpreter.set_tensor(detail["index"], value.view(detail["dtype"]))


def ask_xnnpack(question: Question) -> str:
    """Return whether LiteRT's default delegate takes the operator."""
    litert = _litert()
    try:
        interpreter = litert.Interpreter(model_content=question.model, num_threads=1)
    except (RuntimeError, ValueError, MemoryError):
        return "load"
    outcome = TAKEN
    try:
        interpreter.allocate_tensors()
    except (RuntimeError, ValueError, MemoryError) as error:
        if "failed to delegate" in str(error):
            return "prepare"  # the delegate takes the operator, and then cannot prepare it
        outcome = "prepare"
    try:
        taken = {operator for step in plans(interpreter)[0] if step.delegate for operator in step.operators}
    except (RuntimeError, ValueError, MemoryError):
        return "prepare"
    if question.focus not in taken:
        return LEFT
    if outcome == TAKEN or ask_litert(question) != TAKEN:
        return TAKEN  # or nothing can prepare it, so the model is the cause
    return "prepare"  # the delegate takes an operator that it cannot create, and the model no longer loads


@cache
def _onert() -> Any:
    return importlib.import_module("tests.kit.oracles.onert")


def _fed(operands: Sequence[Operand], place: int, dtype: Any, shape: Sequence[int]) -> Any:
    """Return the data for an input: the values of its operand, if it has any."""
    computed = [one for one in operands if one.kind == "computed"]
    value = array(computed[place]) if place < len(computed) and computed[place].data is not None else None
    return _onert().make_input(0, place, dtype, shape) if value is None else value.view(dtype)


def ask_onert(backend: str, question: Question) -> str:
    """Load, compile and run a model with only this backend."""
    interface = importlib.import_module("tests.kit.oracles.nnfw")
    suffix = ".circle" if question.model[4:8] == b"CIR0" else ".tflite"
    stages = ["load"]
    with tempfile.NamedTemporaryFile(suffix=suffix) as file:
        file.write(question.model)
        file.flush()
        try:
            session = interface.Session()
            session("load_model_from_file", file.name.encode())
            session("set_available_backends", backend.encode())
            stages.append("prepare")
            interface.fix_open_shapes(session)
            session("prepare")
            stages.append("run")
            interface.bind(session, partial(_fed, getattr(question, "inputs", ())))
            session("run")
            session("close_session")
        except (interface.StatusError, KeyError):  # a type that the interface lacks
            return stages[-1]
    return TAKEN


@cache
def _openvino() -> Any:
    core = importlib.import_module("openvino").Core()
    core.set_property("CPU", {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": 1})
    return core


def ask_openvino(question: Question) -> str:
    """Convert and compile a model."""
    stage = "convert"
    with tempfile.NamedTemporaryFile(suffix=".tflite") as file:
        file.write(question.model)
        file.flush()
        try:
            model = _openvino().read_model(file.name)
            stage = "compile"
            _openvino().compile_model(model, "CPU")
        except (RuntimeError, ValueError):
            return stage
    return TAKEN


@dataclass(frozen=True)
class Device:
    """A device; `prepare` imports what `ask` needs. Nothing is asked about ranks above `max_rank`.

    A slow device is asked fewer questions: some ranks, version 2 and the last version, and unknown dimensions for one
    rank. `types` are the types to ask about (all if empty); `varies`: ask about variations; `forks`: the imports of
    `prepare` may happen once, before processes are forked, and all ranks are asked about; `pairs`: ask about pairs of
    operators; `folds`: an operator that unpacks a constant counts as a constant, whichever operator reads it;
    `signals`: ask about the signal operators of TensorFlow Lite Micro.
    """

    name: str
    package: str
    method: str
    ask: Callable[[Question], str]
    prepare: Callable[[], object]
    cpu_seconds: float = 0.5
    slow: bool = False
    max_rank: int = 8
    types: frozenset[str] = frozenset()
    varies: bool = True
    forks: bool = False
    pairs: bool = False
    folds: bool = False
    signals: bool = False

    def runtime(self) -> str:
        """Return the name of the measured program, with its version if it is an installed package."""
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            return f"{self.package} {importlib.metadata.version(self.package)}"
        return self.package

    @property
    def is_brief(self) -> bool:
        """Whether one probe of a signature decides if the others are asked about."""
        return self.slow and self.varies and not self.forks

    def bases(self, bases: Sequence[Probe]) -> Sequence[Probe]:
        """Return the probes of a signature that decide whether to continue: for a slow device, only the last one."""
        return bases[-1:] if self.is_brief else bases

    def asks_first(self, probe: Probe) -> bool:
        """Return whether to ask about a signature at all."""
        if probe.ranks[1] > self.max_rank:
            return False
        if probe.code.startswith("CUSTOM:Signal"):
            return self.signals
        operands = (*probe.inputs, *probe.outputs)
        types = self.types | ({"RESOURCE"} if "VAR" in probe.code else set())
        if self.signals and probe.code == "CAST":
            types |= {"UINT32"}  # between signal operators
        return not self.types or all({operand.element, operand.type} & types for operand in operands)

    def asks(self, probe: Probe, base: Probe) -> bool:
        """Return whether to ask about a probe, given that the base of its signature was accepted."""
        if probe.ranks[1] > self.max_rank:
            return False
        if not self.slow:
            return True
        if probe.feature == "version":
            return probe.version in ({2} if self.forks else {2, LAST_VERSION})
        same = [len(operand.shape) for operand in probe.outputs] == [len(operand.shape) for operand in base.outputs]
        if probe.feature == "dynamic":
            return same
        return same or self.forks or len(probe.outputs[0].shape) in _SOME_RANKS


_COMMON = frozenset(("FLOAT32", "FLOAT16", "INT8", "UINT8", "INT16/t", "INT32", "INT64", "BOOL", "STRING"))
ON_CHIPS = frozenset(
    (
        *("FLOAT32", "BOOL", "INT8/t", "INT8/c", "INT8/b", "INT4/b", "UINT8/t", "INT16/t"),
        *("INT32", "INT32/t", "INT32/c", "INT64", "INT64/t", "INT64/c"),
    )
)
_ON_GPU = (ON_CHIPS | {"FLOAT16", "INT4/t", "INT4/c"}) - {"INT16/t", "INT64/t", "INT64/c"}
_SOME_RANKS = {0, 1, 3, 5, 8}

# onert's interface has room for six dimensions; with more, the runtime writes past the end.
_ONERT = "loads, compiles and runs with BACKENDS="
DEVICES = (
    Device("litert-cpu", "ai-edge-litert", "loads, allocates and runs without delegates", ask_litert, _litert),
    Device("xnnpack", "ai-edge-litert", "is in a DELEGATE of the default delegate", ask_xnnpack, _litert),
    Device("onert-cpu", "onert", f"{_ONERT}cpu", partial(ask_onert, "cpu"), _onert, max_rank=6, pairs=True),
    Device("onert-ruy", "onert", f"{_ONERT}ruy", partial(ask_onert, "ruy"), _onert, max_rank=6),
    Device(
        "openvino-cpu", "openvino", "is converted and compiled", ask_openvino, _openvino, 5.0, True, types=_COMMON,
        varies=False,
    ),
    Device(
        "litert-gpu", "ai-edge-litert", "is on the GPU, which here is Mesa's llvmpipe",
        *accelerators.placing("litert_gpu", "", "gpu"), 5.0, True, types=_ON_GPU, forks=True, pairs=True, folds=True,
    ),
    Device(
        "intel-npu", "ai-edge-litert", "is selected by the compiler plugin IntelOpenVINO for PTL",
        partial(accelerators.ask_sdk, litert_plugin), litert_plugin.prepare, 5.0, True, types=ON_CHIPS, forks=True,
    ),
    *(
        Device(
            name, "ethos-u-vela", f"is not on the CPU after compilation for {configuration}",
            *accelerators.placing("vela", configuration, "npu"), 5.0, True, types=ON_CHIPS, forks=True, pairs=True,
        )
        for name, configuration in accelerators.CONFIGURATIONS.items()
    ),
    Device(
        "tflm", "tflite_micro", "loads, allocates and runs", accelerators.ask_tflm, accelerators.tflm, slow=True,
        types=ON_CHIPS, forks=True, pairs=True, signals=True,
    ),
)  # fmt: skip
