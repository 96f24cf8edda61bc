"""Machine counters in a Perfetto trace: frequencies of CPUs, and energy of power rails.

Fields, from protos/perfetto/: FtraceEvent { cpu_frequency = 11 { state = 1 (kHz); cpu_id = 2 } }; TracePacket
{ power_rails = 40 { rail_descriptor = 1 { index = 1; rail_name = 2 }; energy_data = 2 { index = 1; timestamp_ms = 2;
energy = 3 (microjoules since boot) } } }.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

import numpy as np

from circletools.trace.sources.names import Numbers
from circletools.trace.sources.wire import CONTENT, BrokenMessage, bytes_in, contents, fields, number_in

_FREQUENCY, POWER_RAILS = 11, 40
_FREQUENCY_TAG, _LATEST_NS = 0x5A, 1 << 62
_MOST = 256  # the maximum number of CPUs and rails; devices have far fewer, and each is summed over all executions
_NS_PER_MS = 1_000_000
Samples = list[tuple[int, int]]
"""The times in nanoseconds, and the values."""


@dataclass(slots=True)
class Counters:
    """Samples of the frequency of each CPU in kHz, and of the energy of each rail in microjoules."""

    frequencies: dict[int, Samples] = field(default_factory=lambda: defaultdict(list))
    energies: dict[int, Samples] = field(default_factory=lambda: defaultdict(list))
    rails: dict[int, str] = field(default_factory=dict)

    def add_rails(self, data: bytes, start: int, end: int) -> None:
        """Add the rails of a packet. Raises BrokenMessage."""
        for number, value, first, stop in fields(data, start, end):
            parts = contents(data, first, stop) if value == CONTENT else {}
            if number == 1 and parts:
                self.rails[number_in(parts, 1)] = bytes_in(parts, 2).decode("utf-8", "backslashreplace")
            elif number == 2 and parts:
                sample, rail = (number_in(parts, 2) * _NS_PER_MS, number_in(parts, 3)), number_in(parts, 1)
                if rail in self.energies or len(self.energies) < _MOST:
                    self.energies[rail].append(sample)


def note_frequencies(counters: Counters, data: bytes, times: Numbers, at: Numbers, ends: Numbers) -> None:
    """Record the frequency changes among ftrace events; `at` holds the positions at which their types begin."""
    kinds = np.frombuffer(data, np.uint8)[at]
    chosen = np.flatnonzero((kinds == _FREQUENCY_TAG) & (times >= 0) & (times < _LATEST_NS) & (at < ends))
    for t_ns, first, stop in zip(*(column[chosen].tolist() for column in (times, at, ends)), strict=True):
        try:
            message = bytes_in(contents(data, first, stop), _FREQUENCY)
            change = contents(message, 0, len(message))
            cpu = number_in(change, 2)
            if cpu in counters.frequencies or len(counters.frequencies) < _MOST:
                counters.frequencies[cpu].append((t_ns, number_in(change, 1)))
        except BrokenMessage:
            continue


@dataclass(frozen=True, slots=True)
class MachineUse:
    """The mean frequency of a CPU in MHz, or the energy of a rail in millijoules, over time intervals."""

    name: str
    unit: str
    value: float


def machine_in(counters: Counters, starts: Numbers, ends: Numbers) -> list[MachineUse]:
    """Return the machine's frequencies and energy in these intervals, as far as the samples cover them."""
    found = []
    for cpu, samples in sorted(counters.frequencies.items()):
        times, khz = (np.array(column, np.float64) for column in zip(*sorted(samples), strict=True))
        last = max(float(ends.max(initial=0)), times[-1])
        times, khz = np.append(times, last), np.append(khz, khz[-1])
        passed = np.append(0, np.cumsum(np.diff(times) * khz[:-1]))  # its integral is linear between samples
        known = (np.clip(ends, times[0], last) - np.clip(starts, times[0], last)).sum()
        if known > 0:
            total = (np.interp(ends, times, passed) - np.interp(starts, times, passed)).sum()
            found.append(MachineUse(f"CPU {cpu}", "MHz", float(total / known / 1000)))
    for rail, samples in sorted(counters.energies.items()):
        times, energy = (np.array(column, np.float64) for column in zip(*sorted(samples), strict=True))
        used = (np.interp(ends, times, energy) - np.interp(starts, times, energy)).sum()
        found.append(MachineUse(counters.rails.get(rail, f"rail {rail}"), "mJ", float(used / 1000)))
    return found
