"""Read costs from JSON documents (docs/costs.md describes the format), and make the cost tables of subgraphs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import permutations
from math import inf

import numpy as np

from circletools.affinity.assign import Refusals, by_precedence
from circletools.affinity.capability.table import Refusal
from circletools.affinity.costs.table import CostTable, Floats, Links, make_cost_table
from circletools.affinity.documents import number_of, objects_of, read_document, selector_of, text_of
from circletools.errors import InvalidInputError, UsageError
from circletools.graph.graph import Graph
from circletools.graph.selectors import Chooser, Selector
from circletools.storage.documents import Object

ANY = "*"
_SEE = "see docs/costs.md"
_KEYS = {"devices", "transfers"}
_DEVICE_KEYS = {"name", "launch_us", "constants_bytes_per_us", "operators"}
_TIME_KEYS = {"select", "time_us", "bytes_per_us"}
_TRANSFER_KEYS = {"from", "to", "bytes_per_us", "overhead_us"}


@dataclass(frozen=True, slots=True)
class TimeRule:
    """The time of the operators that a selector chooses: `time_us`, plus `us_per_byte` for each byte read or written.

    An infinite time means that the device cannot run these operators.
    """

    selector: Selector
    time_us: float
    us_per_byte: float
    place: str
    from_command: bool = False

    @property
    def label(self) -> str:
        """Return the time as text."""
        if self.time_us == inf:
            return "no time"
        rate = f" and {1 / self.us_per_byte:g} bytes/us" if self.us_per_byte else ""
        return f"{self.time_us:g} us{rate}"


@dataclass(frozen=True, slots=True)
class Link:
    """The cost of a copy: `overhead_us`, plus `us_per_byte` times the size of the tensor in bytes."""

    overhead_us: float
    us_per_byte: float


@dataclass(frozen=True, slots=True)
class Defaults:
    """Costs that the document omits: copies at 1,000 bytes per microsecond (1 GB/s); everything else is free."""

    bytes_per_us: float = 1000.0
    overhead_us: float = 0.0
    launch_us: float = 0.0


@dataclass(frozen=True, slots=True)
class CostDocument:
    """The contents of a document, by device name; in `transfers`, the device `*` stands for any.

    `constants` holds the time, in microseconds, that a device needs to load one byte of a partition's constants.
    """

    devices: tuple[str, ...] = ()
    times: Mapping[str, tuple[TimeRule, ...]] = field(default_factory=dict)
    launches: Mapping[str, float] = field(default_factory=dict)
    transfers: Mapping[tuple[str, str], Link] = field(default_factory=dict)
    constants: Mapping[str, float] = field(default_factory=dict)

    def listed(self, source: str, target: str) -> Link | None:
        """Return the listed cost of a copy: for both devices, or else for the source, the target, or any device."""
        pairs = ((source, target), (source, ANY), (ANY, target), (ANY, ANY))
        return next((self.transfers[pair] for pair in pairs if pair in self.transfers), None)

    def link(self, source: str, target: str, defaults: Defaults) -> Link:
        """Return the cost of a copy: the listed one, or the default if no entry applies."""
        return self.listed(source, target) or Link(defaults.overhead_us, 1 / defaults.bytes_per_us)


def parse_costs(words: str, name: str) -> CostDocument:
    """Parse a document; errors call it `name`.

    Raises InvalidInputError for a malformed document and UsageError for an invalid selector, with the line number.
    """
    document, _ = read_document(words, name, _KEYS, "`devices`", _SEE)
    times: dict[str, tuple[TimeRule, ...]] = {}
    launches: dict[str, float] = {}
    constants: dict[str, float] = {}
    for entry, place in objects_of(document, "devices", name, _DEVICE_KEYS, _SEE):
        device = text_of(entry, "name", place, _SEE)
        if device in times or device == ANY:
            message = "a device cannot be named *" if device == ANY else f"duplicate entry for device {device!r}"
            raise InvalidInputError(message, location=place, hint=_SEE)
        if "launch_us" in entry:
            launches[device] = number_of(entry, "launch_us", place, _SEE)
        constants[device] = _per_byte(entry, place, "constants_bytes_per_us")
        times[device] = tuple(_time(row, at) for row, at in objects_of(entry, "operators", name, _TIME_KEYS, _SEE))
    transfers: dict[tuple[str, str], Link] = {}
    for entry, place in objects_of(document, "transfers", name, _TRANSFER_KEYS, _SEE):
        pair = text_of(entry, "from", place, _SEE), text_of(entry, "to", place, _SEE)
        for device in pair:
            if device != ANY and device not in times:
                raise InvalidInputError(f"device {device!r} is not among `devices`", location=place, hint=_SEE)
        if pair in transfers:
            raise InvalidInputError(f"duplicate entry from {pair[0]} to {pair[1]}", location=place, hint=_SEE)
        transfers[pair] = Link(_optional(entry, "overhead_us", place), _per_byte(entry, place))
    return CostDocument(tuple(times), times, launches, transfers, constants)


def _time(row: Object, place: str) -> TimeRule:
    selector = selector_of(row, place, _SEE)
    if row.get("time_us", 0) is None:  # null: the device cannot run it
        if "bytes_per_us" in row:
            raise InvalidInputError("`time_us` cannot be null if `bytes_per_us` is given", location=place, hint=_SEE)
        return TimeRule(selector, inf, 0.0, place)
    if not row.keys() & {"time_us", "bytes_per_us"}:
        raise InvalidInputError("`time_us` or `bytes_per_us` is needed", location=place, hint=_SEE)
    return TimeRule(selector, _optional(row, "time_us", place), _per_byte(row, place), place)


def _optional(entry: Object, key: str, place: str) -> float:
    return number_of(entry, key, place, _SEE) if key in entry else 0.0


def _per_byte(entry: Object, place: str, key: str = "bytes_per_us") -> float:
    if key not in entry:
        return 0.0
    return 1 / number_of(entry, key, place, _SEE, above=True)


Measured = Mapping[tuple[int, int], float]
"""Operator times in microseconds, by subgraph and operator index."""

_DEVICES = 64
NO_TIME = Refusal("no time is known for it", remedy="add its time to the costs")


@dataclass(frozen=True, slots=True)
class Costs:
    """Known costs: a document, times measured on a device, and defaults for the rest.

    A measured time takes precedence over the one in the document. Operators whose work was measured in others
    (`fused`) take no time, unless the document states one.
    """

    document: CostDocument
    measured: Mapping[str, Measured]
    defaults: Defaults
    fused: Mapping[str, frozenset[tuple[int, int]]] = field(default_factory=dict)

    def assumed(self, devices: Sequence[str]) -> bool:
        """Return whether any copy between two of these devices has the default cost."""
        return any(self.document.listed(*pair) is None for pair in permutations(dict.fromkeys(devices), 2))


def cost_tables(chooser: Chooser, devices: Sequence[str], costs: Costs) -> list[CostTable]:
    """Return the costs of each subgraph of a model.

    Raises UsageError if an entry of the document selects nothing, or if there are no devices or more than 64.
    """
    if not devices:
        raise UsageError("the costs name no devices", hint="name devices with `devices=` or in the costs")
    if len(devices) > _DEVICES:  # memory grows with the square of the number of devices
        raise UsageError(f"there are costs for {len(devices)} devices; the maximum is {_DEVICES}")
    links = _links(devices, costs)
    tables = [_times(chooser, device, costs) for device in devices]
    return [
        make_cost_table(subgraph, np.stack([table[index] for table in tables], axis=1), links)
        for index, subgraph in enumerate(chooser.model.graphs)
    ]


def with_times(problems: Sequence[CostTable], devices: Sequence[str], refusals: Refusals) -> Refusals:
    """Return the refusals of capability tables, plus a refusal of each operator whose time is unknown."""
    joined = {}
    for number, device in enumerate(devices):
        rows, none = (
            [],
            Refusal(f"no time on {device} is known for any operator", remedy="add its times to the costs"),
        )
        unknown = NO_TIME if any(np.isfinite(one.times_us[:, number]).any() for one in problems) else none
        for subgraph, problem in enumerate(problems):
            refused = refusals[device][subgraph] if device in refusals else [None] * len(problem.times_us)
            timed = np.isfinite(problem.times_us[:, number]).tolist()
            rows.append([message or (None if has else unknown) for message, has in zip(refused, timed, strict=True)])
        joined[device] = rows
    return joined


def _links(devices: Sequence[str], costs: Costs) -> Links:
    overhead, per_byte = np.zeros((2, len(devices), len(devices)))
    for source, target in permutations(range(len(devices)), 2):
        link = costs.document.link(devices[source], devices[target], costs.defaults)
        overhead[source, target], per_byte[source, target] = link.overhead_us, link.us_per_byte
    launches = [costs.document.launches.get(device, costs.defaults.launch_us) for device in devices]
    constants = np.array([costs.document.constants.get(device, 0.0) for device in devices])
    return Links(overhead, per_byte, np.array(launches), constants if constants.any() else None)


def _times(chooser: Chooser, device: str, costs: Costs) -> list[Floats]:
    """Return the time of every operator on a device, by subgraph."""
    rules, fused = costs.document.times.get(device, ()), costs.fused.get(device, ())
    rows = []
    for subgraph, chosen in enumerate(by_precedence(chooser, rules, any_code=True)):
        unknown = (0.0 if (subgraph, at) in fused else np.inf for at in range(len(chosen)))
        times = np.array([none if rule is None else rule.time_us for rule, none in zip(chosen, unknown, strict=True)])
        rates = np.array([0.0 if rule is None else rule.us_per_byte for rule in chosen])
        if rates.any():
            times += rates * operator_bytes(chooser.model.graphs[subgraph])
        rows.append(times.reshape(len(chosen)))
    for (subgraph, operator), time_us in costs.measured.get(device, {}).items():
        rows[subgraph][operator] = time_us
    return rows


def operator_bytes(facts: Graph) -> Floats:
    """Return the bytes that each operator reads (including constants) and writes."""
    facts.check_values()
    total: Floats = np.zeros(len(facts))
    for uses in (facts.uses, facts.definitions):
        pairs = np.unique(np.stack(uses, axis=1), axis=0)
        total += np.bincount(pairs[:, 0], facts.values.bytes[pairs[:, 1]], minlength=len(total))
    return total
