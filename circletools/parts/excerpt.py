"""The contents of a part: some operators of subgraphs, with all that they use and nothing else.

Tensors, buffers, operator codes and subgraphs get new indices, in their old order. The sections of an excerpt come
first; the subgraphs that their operators call stand behind them, whole. Constants go along with each excerpt that
reads them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Section:
    """A selection of a subgraph: operators, ascending, and the tensors that become inputs and outputs.

    `names` gives tensors of the subgraph other names, `further` are tensors that go along though nothing here uses
    them. Where an operator of the excerpt calls the subgraph, it calls all of it, or this section where that
    `replaces` it.
    """

    subgraph: int
    operators: Sequence[int]
    inputs: Sequence[int]
    outputs: Sequence[int]
    names: Mapping[int, bytes] = field(default_factory=dict)
    replaces: bool = False
    further: Sequence[int] = ()


NamedTensors = Sequence[tuple[bytes, int]]
"""Names in a signature, each with the tensor of the old subgraph that it stands for."""


@dataclass(frozen=True, slots=True)
class NewSignature:
    """A signature to be written, of the first section of a subgraph."""

    key: bytes
    subgraph: int
    inputs: NamedTensors
    outputs: NamedTensors


@dataclass(frozen=True, slots=True)
class Excerpt:
    """The selection of a part: a section for each subgraph that is not taken because it is called.

    `metadata` are the entries (by index in the old model) that go along, with another value or, for None, with their
    own; `signatures` are those that do, by index, or new ones. They are about the first section of their subgraph.
    `data` has other contents for buffers. An `anonymous` part has no description and no names of the old model, but
    for those of signatures.
    """

    sections: Sequence[Section]
    metadata: Mapping[int, bytes | None]
    signatures: Sequence[int | NewSignature] = ()
    data: Mapping[int, bytes] = field(default_factory=dict)
    anonymous: bool = False
