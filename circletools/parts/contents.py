"""Everything that an excerpt needs, with new indices: tensors, buffers, operator codes and called subgraphs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from circletools.graph.graph import ModelGraph
from circletools.parts.excerpt import Excerpt, Section
from circletools.parts.references import References

NewIndex = Mapping[int, int]
"""The new index of each old index, ascending."""


@dataclass(frozen=True, slots=True)
class Contents:
    """The contents of an excerpt: operators (rows in the model) and tensors of each section; whole called subgraphs.

    `values` holds the buffer of each metadata entry with a new value: they come after the old model's buffers.
    """

    operators: Sequence[Sequence[int]]
    tensors: Sequence[NewIndex]
    called: Sequence[int]
    rows: Sequence[int]
    subgraphs: NewIndex
    codes: NewIndex
    buffers: NewIndex
    values: NewIndex
    whole_tensors: int

    def sizes(self) -> dict[str, int]:
        """Return the numbers of subgraphs, operators, tensors, buffers and operator codes."""
        return {
            "subgraph": len(self.tensors) + len(self.called),
            "operator": len(self.rows),
            "tensor": sum(map(len, self.tensors)) + self.whole_tensors,
            "buffer": len(self.buffers) + len(self.values),
            "operator code": len(self.codes),
        }


def called_by(model: ModelGraph, sections: Iterable[Section]) -> list[int]:
    """Return the subgraphs that these sections call, directly or indirectly, ascending."""
    given = list(sections)
    called = set[int]().union(*(model.graphs[one.subgraph].called(one.operators) for one in given))
    return sorted(model.reached(called).difference(one.subgraph for one in given if one.replaces))


def contents_of(model: ModelGraph, references: References, excerpt: Excerpt) -> Contents:
    """Return the contents of an excerpt."""
    sections, called = excerpt.sections, called_by(model, excerpt.sections)
    operators = [references.rows("Operator", one.subgraph, one.operators) for one in sections]
    tensors = [_tensors(references, one) for one in sections]
    rows = [row for some in operators for row in some]
    rows += [row for index in called for row in references.rows("Operator", index)]
    whole = [row for index in called for row in references.rows("Tensor", index)]
    named = [references.rows("Tensor", one.subgraph, some) for one, some in zip(sections, tensors, strict=True)]
    kept = (entry for entry, value in excerpt.metadata.items() if value is None)
    buffers = references.named("buffer", "Tensor", chain(*named, whole)).union(
        (references.entries[entry] for entry in kept), references.always
    )
    given = [entry for entry, value in excerpt.metadata.items() if value is not None]
    new_buffers = _renumbered(buffers if references.always else ())
    replacing = {one.subgraph: index for index, one in enumerate(sections) if one.replaces}
    return Contents(
        operators,
        [_renumbered(some) for some in tensors],
        called,
        rows,
        {index: new for new, index in enumerate(called, len(sections))} | replacing,
        _renumbered(references.named("operator_code", "Operator", rows)),
        new_buffers,
        {entry: index for index, entry in enumerate(given, len(new_buffers))},
        len(whole),
    )


def _tensors(references: References, section: Section) -> list[int]:
    """Return the tensors of a section, ascending, including those that its tensors refer to."""
    found = set[int]()
    more = references.named("tensor", "Operator", references.rows("Operator", section.subgraph, section.operators))
    more = more.union(section.inputs, section.outputs, section.further) - {-1}
    while more:
        found |= more
        rows = references.rows("Tensor", section.subgraph, more)
        more = references.named("tensor", "Tensor", rows) - found - {-1}
    return sorted(found)


def _renumbered(indices: Iterable[int]) -> dict[int, int]:
    return {old: new for new, old in enumerate(sorted(set(indices)))}
