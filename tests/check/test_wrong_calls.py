"""Wrong calls from Python: each is answered with a sentence that names what to do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import circletools as ct
from tests.kit.support import bytes_of


def tensors(index: Any) -> Any:
    with ct.open(bytes_of("tflite/cnn")) as model:
        return model.subgraphs[0].tensors[index]


CALLS: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: ct.check("m.tflite"), ct.UsageError, "takes an open model, not str"),  # type: ignore[arg-type]
    (lambda: ct.FitRequest(on="xnnpack"), ct.UsageError, "write on=('xnnpack',)"),  # type: ignore[arg-type]
    (lambda: ct.FitRequest(on=("cpu",), with_="onert"), ct.UsageError, "with_=('onert',)"),  # type: ignore[arg-type]
    (lambda: tensors("image"), TypeError, "find an item by its name"),
    (lambda: tensors(9999), IndexError, "there is no item 9999: there are "),
    (lambda: tensors(-9999), IndexError, "numbered from 0"),
]


@pytest.mark.parametrize(("call", "error", "words"), CALLS)
def test_each_is_answered(call: Callable[[], Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error) as raised:
        call()
    assert words in str(raised.value)
