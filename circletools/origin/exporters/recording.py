"""Record what exporters know about a model's sources, during a conversion or by repeating it for a saved program."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from itertools import dropwhile
from typing import Any

from circletools.errors import InvalidInputError, UsageError
from circletools.graph.build import model_graph
from circletools.model.model import Model, open_model
from circletools.origin.exchange import origins_document
from circletools.origin.exporters import litert_torch, tico
from circletools.origin.exporters.patching import Guard, imported
from circletools.origin.read import NOTHING_KNOWN, Origins
from circletools.origin.tracking.tracker import track_from
from circletools.storage.files import write
from circletools.wording import Attributes

_EXPORTERS = (tico, litert_torch)


@dataclass(frozen=True, slots=True)
class Conversion(Attributes):
    """A model written by an exporter, and the origins of its operators."""

    model: bytes
    origins: Origins


@dataclass(slots=True)
class Recording(Attributes):
    """The recorded conversions, in order."""

    conversions: list[Conversion] = field(default_factory=list)
    guards: tuple[Guard, ...] = ()

    @property
    def origins(self) -> Origins:
        """The origins of the last converted model; empty, after a warning, if recording failed.

        Raises UsageError if nothing was converted.
        """
        if not self.conversions and any(guard.failed for guard in self.guards):
            return NOTHING_KNOWN
        if not self.conversions:
            raise UsageError(
                "nothing was converted while recording",
                hint="call tico.convert, or litert_torch.convert without use_v2, inside the `with` block",
            )
        return self.conversions[-1].origins

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the origins of the last model to a document for `embed-origins --origins`.

        Raises UsageError if nothing was converted, and OutputError if the file cannot be written.
        """
        document = origins_document(self.origins)
        if document["operators"]:
            with open_model(self.conversions[-1].model) as model:
                graphs = model_graph(model).graphs
                for one in document["operators"]:
                    facts, at = graphs[one["subgraph"]].operators, one["operator_index"]
                    one |= {"code": facts.code_names[at], "output": facts.first_result_names[at]}
        write(path, [(json.dumps(document, indent=1) + "\n").encode()])


@contextmanager
def record(*, absolute_paths: bool = False) -> Iterator[Recording]:
    """Record the sources of all models that TICO or litert-torch convert in this block.

    Recording does not change the models; a failure causes a warning and leaves the record empty. File names are
    relative to the working directory, or begin with their package, unless `absolute_paths` is set. Raises UsageError
    if neither package has been imported.

    >>> with ct.exporters.record() as log:
    ...     model = tico.convert(module, inputs)
    >>> log.write("origins.json")
    """
    present = [exporter for exporter in _EXPORTERS if exporter.MODULE in sys.modules]
    if not present:
        raise UsageError(
            "no exporter to record", hint="import tico or litert_torch first; for other exporters see docs/origins.md"
        )
    log, root = Recording(), os.getcwd()

    def note(model: bytes, origins: Origins) -> None:
        if not absolute_paths:
            shown = {source: details.relative(root) for source, details in origins.details.items()}
            origins = replace(origins, details=shown)
        log.conversions.append(Conversion(model, origins))

    with ExitStack() as stack:
        for exporter in present:
            guard = Guard(exporter.MODULE)
            log.guards += (guard,)
            stack.enter_context(exporter.recording(note, guard))
            stack.enter_context(_whole_stacks(guard))
        yield log


def _whole_stacks(guard: Guard) -> AbstractContextManager[None]:
    """Make torch.export keep the stack frames of all functions, starting with the first `forward`.

    By default, torch.export omits the frames of helper functions, and of code passed to `python -c`.
    """

    def wrap(choose: Callable[..., Any]) -> Callable[..., Any]:
        def choosing(tracer: Any, frames: Any) -> Any:
            calls = dropwhile(lambda frame: frame.name != "forward", frames)
            return guard.run(lambda: type(frames).from_list(list(calls)), None) or choose(tracer, frames)

        return choosing

    tracer = getattr(sys.modules.get("torch.fx.proxy"), "TracerBase", None)
    return guard.patched(tracer, "_filter_traceback_frames", wrap, "lines of helper functions")


def from_exported_program(model: Model, path: str | os.PathLike[str]) -> Origins:
    """Return the origins of a model that was made from a program saved by `torch.export.save` (.pt2).

    The program is converted again, with recording, and the origins are tracked to the model, which may have changed
    since. TICO converts the program for a Circle model, litert-torch for a TFLite model. Raises UsageError if that
    exporter is not installed, and InvalidInputError if the program cannot be read or converted. Loading a program can
    execute its code.
    """
    exporter = "tico" if model.format == "circle" else "litert_torch"
    torch, converter = (imported(name, "an exported program") for name in ("torch", exporter))
    try:
        program = torch.export.load(os.fspath(path))
        with record() as log:
            if exporter == "tico":
                converter.convert_from_exported_program(program)
            else:
                args, kwargs = program.example_inputs
                converter.convert(program.module(), args, kwargs)
    except Exception as error:
        message = f"{exporter} cannot convert it: {str(error).strip() or type(error).__name__}"
        raise InvalidInputError(message, location=os.fspath(path)) from error
    with open_model(log.conversions[-1].model) as made:
        return track_from(model_graph(made), log.origins, model_graph(model)).origins
