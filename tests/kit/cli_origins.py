"""Origins that are awkward to write and to read."""

from __future__ import annotations

from tests.kit.origin_support import origins

SHOWN = origins({1: "node1", 2: "a,b", 9: "gone"}, {0: {1}, 2: {1, 2}})
SEVERAL = origins({0: "a", 1: "b", 7: "gone"}, {0: {0}}, {}, {0: {1}, 1: {0, 1}})
AWKWARD = ("a,b", 'say "hi"', "two\nlines\n", "\udcff\udcc3 raw", "", " spaces ", "é中🙂", "0", "#", "'", "a\tb")
NAMES = origins(dict(enumerate(AWKWARD)), {0: {0, 1, 2, 3}, 1: {4, 5}, 2: {6}})
BREAKS = origins({0: "a\rb", 1: "c\r\nd", 2: "e\u2028f", 3: "g\x85h\x0b"}, {0: {0, 1}, 1: {2, 3}})
LONG = origins({0: "x" * 200_000}, {0: {0}})
