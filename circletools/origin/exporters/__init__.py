"""Sources as a PyTorch user knows them, noted while an exporter runs.

import tico

with ct.exporters.record() as log:
    circle_model = tico.convert(module, inputs)
circle_model.save("model.circle")
log.write("origins.json")  # for `circletool embed-origins model.circle out.circle --origins origins.json`

Each source is a node of the exported program: its name is the path of the module instance and what was called there
(`layers.0.attn.q::linear`), its details have the class, the file and the line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from circletools.lazy import face

if TYPE_CHECKING:
    from circletools.origin.exporters.exported_program import from_exported_program
    from circletools.origin.exporters.onnx_file import from_onnx
    from circletools.origin.exporters.recording import Conversion, Recording, record

__all__ = ["Conversion", "Recording", "from_exported_program", "from_onnx", "record"]

_PLACES = {
    "Conversion": "circletools.origin.exporters.recording",
    "Recording": "circletools.origin.exporters.recording",
    "from_exported_program": "circletools.origin.exporters.exported_program",
    "from_onnx": "circletools.origin.exporters.onnx_file",
    "record": "circletools.origin.exporters.recording",
}
if not TYPE_CHECKING:  # else every name would be taken for one of the face
    __getattr__, __dir__ = face(__name__, _PLACES)
