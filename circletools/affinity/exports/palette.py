"""A colour for each device, the same in all pictures of a model."""

from __future__ import annotations

from collections.abc import Iterable

from circletools.affinity.read import Affinity

# Light enough for black text, and distinct for most colour-blind readers (after Okabe and Ito, lightened).
_COLORS = ("#9ecae9", "#ffbf79", "#88d27a", "#f2cf5b", "#ff9d98", "#d6a5c9", "#83bcb6", "#d8b5a5", "#bab0ac")
UNASSIGNED = "#ffffff"


def device_colors(affinity: Affinity) -> dict[str, str]:
    """Return the colour of each device, as `#rrggbb`. Devices beyond the ninth share colours."""
    return colors(name for _, name in sorted(affinity.devices.items()))


def colors(names: Iterable[str]) -> dict[str, str]:
    """Return a colour for each distinct name, in order."""
    return {name: _COLORS[index % len(_COLORS)] for index, name in enumerate(dict.fromkeys(names))}
