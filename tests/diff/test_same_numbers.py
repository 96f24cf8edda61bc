"""Indices that stayed while what they lead to became another thing: a line has to say so."""

from __future__ import annotations

from circletools.diff.difference import compare_models
from circletools.model.model import open_model
from circletools.render.difference import difference_text
from tests.kit.difference_support import differences
from tests.kit.support import bytes_of, generated, noted, packed, unpacked

MLP = bytes_of("circle/mlp")


def shown(before: bytes, after: bytes, ending: str) -> list[str]:
    """Return the text after the paths with an ending."""
    with open_model(before) as old, open_model(after) as new:
        lines = list(difference_text(compare_models(old, new, ["structure"]), old, new, full=True))
    return [line.split("  ")[-1].strip() for line in lines if line.split()[1:] and ending in line]


def test_an_old_list_of_metadata_that_leads_nowhere() -> None:
    model = unpacked(noted(MLP, "stamp", b"text"))
    at = model.metadata[-1].buffer
    model.metadataBuffer = [at]
    before = packed(model, b"CIR0")
    del model.buffers[at:]
    model.metadata = []
    after = packed(model, b"CIR0")
    assert shown(before, after, "metadata_buffer[0]") == [f"{at} stamp -> {at} (does not exist)"]
    assert shown(after, before, "metadata_buffer[0]") == [f"{at} (does not exist) -> {at} stamp"]


def test_two_tensors_that_swapped_their_values() -> None:
    model = unpacked(MLP)
    tensors = model.subgraphs[0].tensors
    first, second = tensors[0], tensors[2]
    values = bytes(range(64)), bytes(range(64, 128))
    for tensor, data in zip((first, second), values, strict=True):
        tensor.shape, model.buffers[tensor.buffer].data = [16], list(data)
    before = packed(model, b"CIR0")
    for tensor, data in zip((first, second), reversed(values), strict=True):
        model.buffers[tensor.buffer].data = list(data)
    after = packed(model, b"CIR0")
    number = first.buffer
    assert shown(before, after, "].buffer")[0] == f"{number} (64 bytes) -> {number} (64 bytes) (a different one)"


def test_an_old_list_that_followed_the_metadata() -> None:
    model = unpacked(noted(MLP, "stamp", b"text"))
    at = model.metadata[-1].buffer
    model.metadataBuffer = [at]
    before = packed(model, b"CIR0")
    model.buffers.insert(at, generated("BufferT", b"CIR0")())
    model.metadataBuffer[0] = model.metadata[-1].buffer = at + 1
    assert differences(before, packed(model, b"CIR0")) == []
    model.metadataBuffer[0] = at  # which has no data
    assert [one.path for one in differences(before, packed(model, b"CIR0"))] == ["metadata_buffer[0]"]


def test_an_old_list_that_was_left_behind() -> None:
    """The buffer is that of the entry still: it was not removed."""
    model = unpacked(noted(MLP, "stamp", b"text"))
    at = model.metadata[-1].buffer
    model.metadataBuffer = [at]
    before = packed(model, b"CIR0")
    model.metadataBuffer = [99]
    found = differences(before, packed(model, b"CIR0"))
    assert [(one.path, one.before, one.after) for one in found] == [("metadata_buffer[0]", at, 99)]
