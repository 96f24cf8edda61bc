"""A model read into the values that parts are made of. Only this module and the writer take a model."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from circletools.edit.editable import check_editable
from circletools.findings import Finding
from circletools.graph.build import model_graph
from circletools.graph.graph import ModelGraph
from circletools.graph.resources import Resources
from circletools.model.model import Model
from circletools.parts.contents import Contents, contents_of
from circletools.parts.excerpt import Excerpt
from circletools.parts.metadata import (
    Annotations,
    Entries,
    SubgraphSelection,
    about_the_whole,
    new_values,
    read_annotations,
)
from circletools.parts.references import References
from circletools.parts.writer import Writer, writer_of
from circletools.storage.files import Part, Source
from circletools.storage.zips import directory_start


@dataclass(frozen=True)
class Whole:
    """A model that passed `check_editable`: its graphs, the indices in its tables, its metadata, and its file.

    `names` are the names of its metadata entries.
    """

    graph: ModelGraph
    references: References
    file: Source
    writer: Writer
    names: tuple[str, ...]
    has_archive: bool

    @cached_property
    def resources(self) -> Resources:
        """The resources that a runtime keeps, and the operators that use them."""
        return Resources(self.graph)

    @cached_property
    def annotations(self) -> Annotations:
        """The metadata that refers to operators. Raises TableFormatError."""
        return read_annotations(self.graph)

    def contents(self, excerpt: Excerpt) -> Contents:
        """Return everything that an excerpt needs."""
        return contents_of(self.graph, self.references, excerpt)

    def bytes_of(self, excerpt: Excerpt) -> list[Part]:
        """Return the file of an excerpt."""
        return self.writer.write(excerpt, self.contents(excerpt))

    def entries(self, kept: SubgraphSelection, *, same_ends: bool) -> tuple[Entries, tuple[Finding, ...]]:
        """Return the metadata of a model with these subgraphs, and notes on dropped entries.

        With `same_ends`, the subgraphs have their old inputs and outputs. If they are all subgraphs with all their
        operators, the tables are kept unread.
        """
        counts = list(map(len, self.graph.graphs))
        moved = any(index != subgraph for index, (subgraph, _) in enumerate(kept))
        fewer = any(chosen is not None and len(chosen) < counts[subgraph] for subgraph, chosen in kept)
        gone = about_the_whole(self.names, same_order=not (moved or fewer), same_ends=same_ends and not moved)
        left = [(index, name) for index, name in enumerate(self.names) if name not in gone]
        notes = tuple(gone.values())
        if not moved and not fewer and len(kept) == len(counts):
            return {index: None for index, _ in left}, notes
        values = new_values(self.annotations, kept)
        entries = {index: values.get(name) for index, name in left if name not in self.annotations.stale}
        return entries, (*notes, *self.annotations.notes)

    def notes(self, kept: SubgraphSelection) -> Iterator[Finding]:
        """Yield what a model with these subgraphs lacks: operators that write its resources, and attached files."""
        used = set[str]()
        for index, chosen in kept:
            naming = self.resources.uses(index).naming
            used.update(naming.values() if chosen is None else (naming[one] for one in chosen if one in naming))
        left_out = set(range(len(self.graph.graphs))).difference(index for index, _ in kept) if used else ()
        for index in sorted(left_out):
            for name in sorted(self.resources.written(index) & used):
                message = f"subgraph {index}, which is left out, sets {name} too"
                yield Finding("STATE_APART", "warning", f"subgraphs[{index}]", message)
        if self.has_archive:
            message = "the archive of associated files appended to the model is left out"
            yield Finding("ARCHIVE_LEFT_OUT", "info", "", message)


def read_whole(model: Model) -> Whole:
    """Read a model. Raises what `check_editable` raises."""
    check_editable(model)
    references = References(model)
    return Whole(
        model_graph(model),
        references,
        model.source,
        writer_of(model, references),
        tuple(entry.name for entry in model.metadata),
        directory_start(model.wire.memory) is not None,
    )
