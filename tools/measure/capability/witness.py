"""Evidence about operators that no template makes: if a whole model runs, all its operators are accepted."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from circletools.affinity.capability.traits import OperatorTraits, SubgraphTraits
from circletools.graph.build import model_graph
from circletools.model.model import open_model
from tools.measure.capability.runtimes import Device
from tools.measure.isolation import ROOT


@dataclass(frozen=True)
class Whole:
    """A model as a question about all its operators."""

    model: bytes
    focus: int = -1


@dataclass(frozen=True)
class Witness:
    """An operator of a model that runs, with the attributes of a probe from which forms are made."""

    traits: OperatorTraits
    dynamic = False
    feature = ""
    variadic = False

    @property
    def code(self) -> str:
        """The operator code name."""
        return self.traits.code

    @property
    def version(self) -> int:
        """The version of the operator code."""
        return self.traits.version

    @property
    def settings(self) -> dict[str, float]:
        """The options: none, since one model is no evidence about other values."""
        return {}

    @property
    def signature(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The inputs and the outputs, in the words of a table."""
        inputs = tuple("none" if tensor is None else str(tensor) for tensor in self.traits.inputs)
        return inputs, tuple(str(tensor).removesuffix(" computed") for tensor in self.traits.outputs)

    @property
    def ranks(self) -> tuple[int, int]:
        """The lowest and highest ranks of computed inputs and outputs."""
        tensors = [tensor for tensor in self.traits.inputs if tensor is not None and not tensor.constant]
        ranks = [tensor.rank for tensor in (*tensors, *self.traits.outputs) if tensor is not None]
        return min(ranks, default=0), max(ranks, default=0)


def models(device: Device) -> list[Path]:
    """Return the project's models in the formats that a device reads."""
    formats = ("tflite", "circle") if device.package == "onert" else ("tflite",)
    return sorted(path for name in formats for path in (ROOT / "testdata" / name).glob(f"*.{name}"))


def witnesses(paths: Sequence[Path]) -> Iterator[Witness]:
    """Yield the operators of models."""
    for path in paths:
        with open_model(path) as model:
            for facts in model_graph(model).graphs:
                traits = SubgraphTraits(facts, lambda _: ())
                yield from (Witness(traits.operator(index)) for index in range(len(traits)))
