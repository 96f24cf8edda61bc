"""Test models with words and bytes overwritten, drawn by Hypothesis."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import strategies as st

from tests.kit.support import bytes_of, noted, put

BASES = (
    "circle/mlp_external", "circle/while_loop", "circle/quantized_linear", "circle/lstm_cell",
    "tflite/if_cond", "tflite/variable", "tflite/sparse", "tflite/debug_metadata", "tflite/composite",
    "tflite/custom_options_external", "tflite/zip_tail", "tflite/two_signatures",
)  # fmt: skip
INTERESTING = (0, 1, 2, 3, 4, 5, 8, 12, 16, 0x7F, 0x80, 0xFC, 0xFE, 0xFF)


@dataclass(frozen=True)
class Damage:
    """A test model, perhaps edited first, with words and bytes overwritten, and perhaps cut."""

    name: str
    edited: bool
    writes: tuple[tuple[int, bytes], ...]
    cut: int | None

    def done(self) -> bytes:
        data = noted(bytes_of(self.name)) if self.edited else bytes_of(self.name)
        for at, new in self.writes:
            place = at % (len(data) - 4)
            data = put(data, place & ~3 if len(new) == 4 else place, new)
        return data if self.cut is None else data[: self.cut % len(data)]


single = st.one_of(st.sampled_from(INTERESTING), st.integers(0, 255)).map(lambda value: bytes([value]))
word = st.one_of(st.integers(-64, 4000), st.sampled_from((-(2**31), 2**31 - 1)))
word_bytes = word.map(lambda value: value.to_bytes(4, "little", signed=True))
write = st.tuples(st.integers(0, 20_000), st.one_of(single, word_bytes))
damages = st.builds(
    Damage,
    name=st.sampled_from(BASES),
    edited=st.booleans(),
    writes=st.lists(write, min_size=1, max_size=8).map(tuple),
    cut=st.one_of(st.none(), st.none(), st.none(), st.integers(0, 20_000)),
)
