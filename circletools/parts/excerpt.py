"""The contents of a part: some operators of subgraphs, with everything that they use and nothing else.

Tensors, buffers, operator codes and subgraphs get new indices, in their old order. The sections of an excerpt come
first; subgraphs that their operators call follow as a whole. Every excerpt that reads a constant contains it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Section:
    """A selection from a subgraph: operators, ascending, and the tensors that become inputs and outputs.

    `names` gives tensors of the subgraph other names, `further` are tensors to include although nothing here uses
    them, `real` those that become FLOAT32, without a quantization. If an operator of the excerpt calls the subgraph,
    it calls all of it, or this section if `replaces` is set.
    """

    subgraph: int
    operators: Sequence[int]
    inputs: Sequence[int]
    outputs: Sequence[int]
    names: Mapping[int, bytes] = field(default_factory=dict)
    replaces: bool = False
    further: Sequence[int] = ()
    real: Collection[int] = ()


NamedTensors = Sequence[tuple[bytes, int]]
"""Names in a signature, each with the tensor of the old subgraph that it names."""


@dataclass(frozen=True, slots=True)
class NewSignature:
    """A new signature for the first section of a subgraph."""

    key: bytes
    subgraph: int
    inputs: NamedTensors
    outputs: NamedTensors


@dataclass(frozen=True, slots=True)
class Excerpt:
    """The selection for a part: a section for each subgraph that is not included because it is called.

    `metadata` are the entries (by index in the old model) to keep, with a new value or None for the old one;
    `signatures` are the ones to keep, by index, or new ones. They refer to the first section of their subgraph.
    `data` are replacement contents for buffers. An `anonymous` part has no description and no names of the old model,
    except in signatures.
    """

    sections: Sequence[Section]
    metadata: Mapping[int, bytes | None]
    signatures: Sequence[int | NewSignature] = ()
    data: Mapping[int, bytes] = field(default_factory=dict)
    anonymous: bool = False
