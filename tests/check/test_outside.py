"""Data outside the file is reported, and everything else is still checked."""

from __future__ import annotations

import pytest

from circletools.check import check
from circletools.model.model import open_model
from tests.kit.origin_support import embedded
from tests.kit.support import bytes_of, packed, unpacked


@pytest.mark.parametrize(("offset", "size"), [(65536000, 0), (65536000, 8), (16, 1 << 30)])
@pytest.mark.parametrize("name", ["circle/constant_output", "tflite/constant_output", "tflite/cnn", "with origins"])
def test_any_buffer_may_lie_outside_the_file(name: str, offset: int, size: int) -> None:
    data = embedded(bytes_of("tflite/cnn")) if name == "with origins" else bytes_of(name)
    for index in range(len(unpacked(data).buffers)):
        model = unpacked(data)
        model.buffers[index].offset, model.buffers[index].size = offset, size
        with open_model(packed(model, data[4:8])) as opened:
            codes = {finding.code for finding in check(opened)}
        assert "EXTERNAL_DATA_OUTSIDE_FILE" in codes, index
