"""Running clocks: the state of a thread's open marks, without their names.

A context records the running (layer, phase) buckets and the innermost of them. Contexts are shared: a trace of a
million lines has about thirty.
"""

from __future__ import annotations

from dataclasses import dataclass

from circletools.trace.nnapi.marks import LAYERS, PHASES, SUBPHASES, UNSPECIFIED, Mark

BUCKETS = tuple((layer, phase) for layer in LAYERS for phase in PHASES)
BUCKET = {pair: number for number, pair in enumerate(BUCKETS)}
NO_BUCKET = -1

_EXECUTION = BUCKET["LR", "PE"]
# Which layers and phases may be directly inside which; the same layer or phase is always allowed.
_INNER_LAYERS = {"LA": ("LR",), "LR": ("LI", "LC"), "LI": ("LD",), "LD": (), "LC": ()}
_HOLDERS = {"LA": (), "LR": ("LA",), "LI": ("LR",), "LD": ("LI",), "LC": ("LR", "LI")}
_MAIN_PHASES = ("PP", "PC", "PE", "PT", *SUBPHASES)
_FAMILIES = (("PI",), ("PP",), ("PC",), ("PE", *SUBPHASES), ("PT",))
# Which phases pause while a phase runs: main phases that it is not part of. Legal only for PI; the same for all.
_PAUSED = {
    phase: sum(1 << BUCKET[pair] for pair in BUCKETS if pair[1] in sum(_FAMILIES, ()) and pair[1] not in family)
    for family in _FAMILIES
    for phase in family
}
_INNER_PHASES = {
    "PO": ("PWU", "PBM", *_MAIN_PHASES),
    "PWU": ("PE", *SUBPHASES),
    "PBM": ("PE", *SUBPHASES),
    "PE": SUBPHASES,
}


@dataclass(frozen=True, slots=True)
class Context:
    """The clocks of a thread.

    `running` has bit i set if bucket i runs; `owner` is the innermost bucket, -1 if no mark is open. `nearest` holds,
    for each layer, the number of the context of its innermost mark, or 0.
    """

    number: int
    running: int
    owner: int
    nearest: tuple[int, ...]


class Contexts:
    """All contexts of a trace, numbered; 0 is a thread without open marks.

    Entry 2n + 1 of `running` and `owners` is context n while an execution that began on the thread is in flight: the
    runtime's clock runs and owns time that would otherwise be the application's.
    """

    def __init__(self) -> None:
        self.all: list[Context] = [Context(0, 0, NO_BUCKET, (0,) * len(LAYERS))]
        self.running: list[int] = [0, 1 << _EXECUTION]
        self.owners: list[int] = [NO_BUCKET, _EXECUTION]
        self._known: dict[tuple[int, str, str, bool, bool], tuple[Context, tuple[str, ...]]] = {}

    def enter(self, base: Context, mark: Mark) -> tuple[Context, tuple[str, ...]]:
        """Return the context inside a mark, and the codes of the faults of the mark there."""
        key = (base.number, mark.layer, mark.phase, mark.subtract, mark.in_process)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._make(base, mark)
        return found

    def _make(self, base: Context, mark: Mark) -> tuple[Context, tuple[str, ...]]:
        outer = BUCKETS[base.owner] if base.owner >= 0 else None
        layer, phase, faults = mark.layer, mark.phase, []
        if phase == UNSPECIFIED:
            if outer is None:
                return base, ("T024",)
            phase = outer[1]
        if mark.subtract:
            # Back to the context of its own layer, else to one that may contain it.
            own = base.nearest[LAYERS.index(layer)]
            holder = own or max((base.nearest[LAYERS.index(other)] for other in _HOLDERS[layer]), default=0)
            if not own:
                faults.append("T030")
            running = self.all[holder].running
        else:
            running = base.running
            if outer is not None:
                faults += _nesting_faults(outer, layer, phase, mark.in_process)
        running &= ~_PAUSED.get(phase, 0)
        bucket = BUCKET[layer, phase]
        running |= 1 << bucket
        if phase in SUBPHASES:
            running |= 1 << BUCKET[layer, "PE"]
        if (running, bucket) == (base.running, base.owner):
            return base, tuple(faults)  # more detail on the same bucket
        return self._add(base, running, bucket, layer), tuple(faults)

    def _add(self, base: Context, running: int, bucket: int, layer: str) -> Context:
        number = len(self.all)
        at = LAYERS.index(layer)
        context = Context(number, running, bucket, (*base.nearest[:at], number, *base.nearest[at + 1 :]))
        self.all.append(context)
        app = layer == LAYERS[0]
        self.running += [running, running | 1 << _EXECUTION]
        self.owners += [bucket, _EXECUTION if app else bucket]
        return context


def _nesting_faults(outer: tuple[str, str], layer: str, phase: str, in_process: bool) -> list[str]:
    faults = []
    if in_process and outer[0] == "LI":  # a driver in the client's process, called through the HAL
        layer = "LD"
    if phase not in ("PI", outer[1]) and phase not in _INNER_PHASES.get(outer[1], ()):
        faults.append("T020")
    if layer != outer[0] and layer not in _INNER_LAYERS[outer[0]]:
        faults.append("T021")
    return faults
