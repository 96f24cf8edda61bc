"""Documents that were recorded while TICO and litert-torch converted a network."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import circletools as ct

DATA = Path(__file__).resolve().parents[2] / "testdata"
LINES = (DATA / "generate_origins.py").read_text(encoding="utf-8").splitlines()
CALLS = {
    "stem": "self.stem(x)", "cells.0": "x + y", "cells.0.conv": "self.conv(x)", "cells.0.norm": "self.norm(y)",
    "cells.1.conv": "self.conv(x)", "cells.1.norm": "self.norm(y)", "norm": "self.norm(x)", "head": "self.head(x)",
}  # fmt: skip
NAMES = ["tico.circle", "litert_torch.tflite"]


@pytest.mark.parametrize("name", NAMES)
def test_paths_classes_and_lines(name: str) -> None:
    text = (DATA / "origins" / name).with_suffix(".json").read_text(encoding="utf-8")
    modules = json.loads(text)["modules"]
    origins = ct.origins.parse(text, "origins.json")
    with ct.open(DATA / "origins" / name) as model:
        count = len(model.subgraphs[0].operators)
    assert sorted(origins.operators[0]) == list(range(count))
    with pytest.raises(KeyError):
        origins.details_of(max(origins.sources) + 1)
    lines: dict[str, set[str]] = {}
    for source in origins.sources:
        details = origins.details_of(source)
        assert modules[details.path] == details.class_name
        assert details.file == "generate_origins.py"
        lines.setdefault(details.path, set()).add(LINES[details.line - 1])
    for path, call in CALLS.items():
        assert any(call in line for line in lines[path]), path


@pytest.mark.parametrize("name", NAMES)
def test_operators_name_the_modules_whose_weights_they_read(name: str) -> None:
    text = (DATA / "origins" / name).with_suffix(".json").read_text(encoding="utf-8")
    origins = ct.origins.parse(text, "origins.json")
    with ct.open(DATA / "origins" / name) as model:
        codes = model.code_names(0)
    for code, paths in (("CONV_2D", ("stem", "cells.0.conv", "cells.1.conv")), ("FULLY_CONNECTED", ("head",))):
        found = [
            {origins.details_of(source).path for source in origins.of(0, index)}
            for index, one in enumerate(codes)
            if one == code
        ]
        assert len(found) == len(paths)
        assert all(path in named for path, named in zip(paths, found, strict=True))
