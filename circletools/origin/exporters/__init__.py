"""Record sources, in terms that PyTorch users know, while an exporter runs.

import tico

with ct.exporters.record() as log:
    circle_model = tico.convert(module, inputs)
circle_model.save("model.circle")
log.write("origins.json")  # for `circletool embed-origins model.circle out.circle --origins origins.json`

Each source is a node of the exported program. Its name is the path of the module instance and the called function
(`layers.0.attn.q::linear`); its details are the class, the file and the line.
"""

from circletools.lazy import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__)
