"""A marker that lies: no prefix is seen where none is, and nothing is lost."""

from __future__ import annotations

import pytest

from tests.kit.build import Raw
from tests.kit.support import EXTERNAL, bytes_of, noted, put, read, u32, vtable_of, with_entry

MARKER = b"CIRTOOL1"  # at byte 8, and behind it the length of the prefix


def forged(data: bytes, length: int) -> bytes:
    assert data[8:16] == MARKER
    return put(data, 16, (length % 2**64).to_bytes(8, "little"))


def checked_after(data: bytes) -> None:
    """Edit `data`; another reader sees it unchanged but for the entry."""
    expected = read(data)
    after = noted(data, "another", b"value")
    assert read(after) == with_entry(expected, b"another", b"value")
    assert read(noted(after, "third", b"3")) == with_entry(with_entry(expected, b"another", b"value"), b"third", b"3")


@pytest.mark.parametrize("name", [*EXTERNAL, "tflite/if_cond", "circle/while_loop"])
@pytest.mark.parametrize("change", [-(2**63), -128, -64, -1, 1, 64, 128, 2**40])
def test_a_marker_with_a_wrong_length_is_no_marker(name: str, change: int) -> None:
    data = noted(bytes_of(name))
    prefix = len(data) - len(bytes_of(name))
    checked_after(forged(data, prefix + change))


def appended(first: bytes, second: bytes) -> bytes:
    """Put a second model behind an edited one, and let the marker lead to it."""
    first += bytes(-len(first) % 64)
    return forged(first, len(first)) + second


@pytest.mark.parametrize("second", ["circle/mlp", "circle/only_input", "circle/mlp_external"])
def test_a_marker_that_leads_to_another_model_changes_nothing(second: str) -> None:
    data = appended(noted(bytes_of("circle/while_loop")), bytes_of(second))
    checked_after(data)


@pytest.mark.parametrize("name", EXTERNAL)
def test_external_data_in_front_of_a_forged_base_is_not_lost(name: str) -> None:
    second = f"{name.split('/', maxsplit=1)[0]}/{'only_input' if name.startswith('circle') else 'scalar'}"
    checked_after(appended(noted(bytes_of(name)), bytes_of(second)))


def test_a_marker_that_leads_to_garbage_changes_nothing() -> None:
    """The header there is right, the rest is not."""
    first = noted(bytes_of("circle/while_loop"))
    for word in (0x00000000, 0x7FFFFFFF, 0xFFFFFFFF, 0x00000010):
        second = b"\x10\0\0\0CIR0" + word.to_bytes(4, "little") * 14
        checked_after(appended(first, second))


def test_an_original_that_was_broken_behind_an_intact_prefix_changes_nothing() -> None:
    original = bytes_of("circle/while_loop")
    data = noted(original)
    base = len(data) - len(original)
    root = base + u32(original, 0)
    for place, word in ((root, 0x7FFFFFFF), (root, 0), (vtable_of(data, root), 0xFFFF), (root + 4, 0x7FFFFFFF)):
        damaged = put(data, place, word.to_bytes(4, "little"))
        try:
            read(damaged)
        except Exception:  # noqa: S112 - this place was needed
            continue
        checked_after(damaged)


def test_a_marker_in_a_file_of_somebody_else_is_no_harm() -> None:
    """A file that never was edited, with the marker in its unused bytes."""
    for length in (0, 64, 128, 1 << 20):
        raw = Raw()
        tensor = raw.table({0: raw.ints([1]), 3: raw.string(b"x"), 1: ("i8", 0)})
        subgraph = raw.table({0: raw.refs([tensor]), 1: raw.ints([0]), 2: raw.ints([0])})
        root = raw.table({2: raw.refs([subgraph]), 4: raw.refs([raw.table()])})
        raw.builder.Prep(64, 24)
        raw.builder.PrependUint64(length)
        raw.builder.PrependUint64(int.from_bytes(MARKER, "little"))
        data = raw.finish(root, b"CIR0")
        assert data[8:16] == MARKER
        checked_after(data)
