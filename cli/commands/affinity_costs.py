"""What the options for costs ask for, and what comes of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from circletools.errors import InvalidInputError, UsageError
from circletools.wording import suggestion

from ..console.reading import read_text

if TYPE_CHECKING:
    from circletools.affinity.costs.times import Costs
    from circletools.affinity.store import Affinity
    from circletools.model import Model
    from circletools.model.selectors import Chooser
    from circletools.trace.operators.profile import OperatorTrace


@dataclass(frozen=True, slots=True)
class CostOptions:
    """The options as they were given."""

    file: Path | None
    traces: Sequence[str]
    copy_rate: float
    copy_overhead: float
    launch: float
    parallel: bool = False
    memory: Sequence[str] = ()

    @property
    def given(self) -> bool:
        """Say whether there are costs."""
        return self.file is not None or bool(self.traces)

    @property
    def files(self) -> list[str | Path | None]:
        """Return the files that are read."""
        return [self.file, *(trace.partition("=")[2] for trace in self.traces)]

    def read(self) -> CostSource | None:
        """Read what is named; None where there are no costs. Raises UsageError for options that need them."""
        for option, given in (("--parallel", self.parallel), ("--memory", bool(self.memory))):
            if given and not self.given:
                raise UsageError(f"{option} needs costs", hint="give --costs FILE or --trace DEVICE=TRACE")
        if self.parallel and self.memory:
            raise UsageError(
                "--parallel and --memory exclude each other: what lives at the same time depends on when it runs"
            )
        return CostSource(self) if self.given else None


class CostSource:
    """Costs that are read, before any model is."""

    def __init__(self, options: CostOptions) -> None:
        from circletools.affinity.costs.costfile import CostDocument, Defaults, parse_costs  # noqa: PLC0415

        if "-" in (str(options.file), *(words.partition("=")[2] for words in options.traces)):
            raise UsageError("costs and traces cannot be standard input", hint="name a file")
        self.document = (
            CostDocument() if options.file is None else parse_costs(read_text(options.file), str(options.file))
        )
        self.traces = dict(_traces(options.traces))
        self.defaults = Defaults(options.copy_rate, options.copy_overhead, options.launch)
        self.parallel, self._memory = options.parallel, options.memory

    def of(self, model: Model, devices: Sequence[str]) -> Costs:
        """Return the costs of a model's operators on devices; tell of those that a trace has no time for."""
        from circletools.affinity.costs.times import Costs  # noqa: PLC0415
        from circletools.planning.evaluate import measured_times  # noqa: PLC0415
        from circletools.wording import counted  # noqa: PLC0415

        from ..console.terminal import complain  # noqa: PLC0415

        measured = {}
        for device, (name, trace) in self.traces.items():
            try:
                found = measured_times(model, trace, {*devices, *self.traces} - {device})
            except InvalidInputError as error:
                error.location = name if error.location is None else f"{name}: {error.location}"
                raise
            measured[device] = found.times_us
            if found.elsewhere:
                where = ", ".join(sorted(frozenset().union(*found.elsewhere.values())))
                ran = counted(len(found.elsewhere), "operator")
                complain("note", f"{name}: {ran} ran on {where}, which gives no time for {device}")
            known = len(found.times_us) + len(found.elsewhere)
            absent = sum(len(subgraph.operators) for subgraph in model.subgraphs) - known
            if absent:
                be = "is" if absent == 1 else "are"
                complain("note", f"{name}: {counted(absent, 'operator')} {be} not in the trace of {device}")
        return Costs(self.document, measured, self.defaults)

    def chooser(self, model: Model) -> Chooser:
        """Return what chooses operators by the words of the document."""
        from circletools.model.selectors import Chooser  # noqa: PLC0415
        from circletools.planning.reproject import source_names  # noqa: PLC0415

        return Chooser(model, source_names(model) if self.by_origin else ())

    def told(self, model: Model, affinity: Affinity, as_json: bool) -> dict[int, Any]:
        """Return what to tell of the subgraphs that have an affinity, by index: fields, or lines."""
        from circletools.planning.evaluate import affinity_costs, costs_json, costs_text  # noqa: PLC0415

        devices = list(affinity.devices.values())
        costs, tell = self.of(model, devices), costs_json if as_json else costs_text
        self.tell_defaults(costs, devices)
        found = affinity_costs(self.chooser(model), affinity, costs)
        return {index: tell(each, (), {}) for index, each in found.items()}

    def tell_defaults(self, costs: Costs, devices: Sequence[str]) -> None:
        """Say what counts for copies that nothing is said of."""
        from ..console.terminal import complain  # noqa: PLC0415

        if costs.assumed(devices):
            given = self.defaults
            complain(
                "note",
                f"copies that the costs say nothing of: {given.overhead_us:g} us and {given.bytes_per_us:g} bytes/us "
                "(--copy-overhead, --copy-rate)",
            )

    @property
    def by_origin(self) -> bool:
        """Say whether the document chooses operators by their sources."""
        return any(rule.selector.kind == "origin" for rules in self.document.times.values() for rule in rules)

    @property
    def devices(self) -> tuple[str, ...]:
        """Return the devices that times are known for, those of the document first."""
        return tuple(dict.fromkeys((*self.document.devices, *self.traces)))

    def caps(self, devices: Sequence[str]) -> dict[int, int]:
        """Return the bytes that devices have, by number. Raises UsageError."""
        caps: dict[int, int] = {}
        for words in self._memory:
            device, equals, count = words.partition("=")
            if not equals or not count.isascii() or not count.isdigit() or len(count) > 18:
                raise UsageError(f"--memory {words!r} names no number of bytes", hint="write --memory npu=1048576")
            if device not in devices:
                hint = suggestion(device, devices)
                raise UsageError(f"--memory {words}: device {device!r} is not among the devices", hint=hint)
            if devices.index(device) in caps:
                raise UsageError(f"--memory {words}: a second one for {device!r}")
            caps[devices.index(device)] = int(count)
        return caps


def _traces(words: Sequence[str]) -> Iterator[tuple[str, tuple[str, OperatorTrace]]]:
    from circletools.trace.operators.read import read_profile  # noqa: PLC0415

    known: set[str] = set()
    for word in words:
        device, equals, name = word.partition("=")
        if not device or not equals or not name:
            raise UsageError(f"--trace {word!r} names no device or no trace", hint="write --trace npu=trace.json")
        if device in known:
            raise UsageError(f"--trace {word}: a second one for {device!r}")
        known.add(device)
        yield device, (name, read_profile(name))
