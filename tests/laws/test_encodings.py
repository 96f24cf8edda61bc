"""Every encoding of traces is fuzzed, and takes any short text for a trace or refuses it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import islice, product

import pytest

from circletools.errors import CircleToolsError
from circletools.trace.operators.read import DOCUMENTS
from circletools.trace.sources.batch import Trace
from circletools.trace.sources.content import pieces_of
from circletools.trace.sources.open import ENCODINGS, Encoding, open_trace
from fuzz.targets import TARGETS

TOKENS = (b"x", b",", b"y", b"0", b"{", b"[", b"<", b'"', b":", b"|", b"\n", b"\0")
OPERATORS = {parse.__module__.rpartition(".")[2]: parse for _, parse in DOCUMENTS}


def reader(encoding: Encoding) -> Callable[[bytes], object]:
    def read(data: bytes) -> object:
        pieces = pieces_of(memoryview(data))
        return list(
            Trace("", encoding.name, encoding.place, lambda one: encoding.read(one, pieces), 1 << 20).batches()
        )

    return read


READERS = {encoding.name: reader(encoding) for encoding in ENCODINGS} | OPERATORS


def seeds() -> Iterator[bytes]:
    """Yield the seeds of the fuzz targets that read traces."""
    for target in TARGETS.values():
        if {"trace-stats", "attribute"} & {*target.commands.split()}:
            yield from target.seeds()


def test_every_encoding_has_seeds_of_a_fuzz_target() -> None:
    found = set()
    for data in seeds():
        with suppress(CircleToolsError):
            found.add(open_trace(data).encoding.partition(" in ")[0])
    assert found == {encoding.name for encoding in ENCODINGS}


def test_every_format_of_operator_times_has_seeds_of_a_fuzz_target() -> None:
    found = set()
    for data in seeds():
        start = data[:4096].lstrip(b"\xef\xbb\xbf \t\r\n")
        known = (parse for is_one, parse in DOCUMENTS if is_one(start, memoryview(data)))
        found |= {parse.__module__.rpartition(".")[2] for parse in islice(known, 1)}
    assert found == OPERATORS.keys()


@pytest.mark.parametrize("name", READERS)
def test_a_short_text_is_a_trace_or_is_refused(name: str) -> None:
    for words in (words for count in range(4) for words in product(TOKENS, repeat=count)):
        data = b"".join(words)
        try:
            READERS[name](data)
        except CircleToolsError:
            continue
        except Exception as error:
            raise AssertionError(f"{name} ends with {error!r} on {data!r}") from error
