"""What exporters put into the names of tensors, and the sources that can be read from it.

    TICO            torch.nn.modules.linear.Linear::linear_2       class of the module, node of the graph
    litert-torch    net.Lm/net.Block_0/torch.nn.modules.linear.Linear_q;7
                                                                   classes and names of the modules; uniquifier
    TensorFlow      model/dense/MatMul;model/dense/BiasAdd         nodes in their name scopes
    onnx2tf         model/tf.nn.relu/Relu;model/tf.math.add/Add    the same, in a scope for each function

The converters behind the last three join the names of fused operators with `;`, each of which is a source, and
tell equal names apart by a number at the end, which is none.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable

from circletools.origin.source import Source, SourceDetails
from circletools.wording import Word

_WORD = r"[^\s:;/]+"
_TICO = re.compile(rf"({_WORD})::({_WORD})")
_MODULE = r"[^\s;/]*\.[^\s;/]+"  # a class with the module that defines it, and maybe the name of the instance
_MODULES = re.compile(rf"(?:{_MODULE}(?:/{_MODULE})*;;?)+\d*")
_FUNCTION = re.compile(r"(?:^|/)tf\.[\w.]+/")
_NUMBERED = re.compile(r"(.*\D)\d+", re.DOTALL)
_CONVERTED = "MLIR Converted."  # the description that TensorFlow's converter writes
_CONSTANT = re.compile(r"(?:.*/)?Const(?:_\d+)?\d*", re.DOTALL)


class Exporter(Word):
    """A program whose names of tensors can be read."""

    TICO = "TICO"
    LITERT_TORCH = "litert-torch"
    TENSORFLOW = "TensorFlow"
    ONNX2TF = "onnx2tf"


def exporter_of(description: str, names: Iterable[str]) -> Exporter | None:
    """Tell by a model's description and the names of what its operators make which exporter named them.

    None where the names have no form that is known. Tools that come later add tensors with names of their own, so the
    form of most of those that have one counts.
    """
    counts, plain = dict.fromkeys(Exporter, 0), None
    for name in names:
        if _TICO.fullmatch(name):
            counts[Exporter.TICO] += 1
        elif _MODULES.fullmatch(name):
            counts[Exporter.LITERT_TORCH] += 1
        elif _FUNCTION.search(name):
            counts[Exporter.ONNX2TF] += 1
        elif "/" in name:
            counts[Exporter.TENSORFLOW] += 1
        elif name and description == _CONVERTED:
            plain = Exporter.TENSORFLOW
    most = max(counts, key=counts.__getitem__)
    return most if counts[most] else plain


def sources_in(name: str, exporter: Exporter | None, tensors: Collection[str] = ()) -> list[Source]:
    """Return the sources that the name of an operator's first output holds; a name of another form is one itself.

    `tensors` are the names of all tensors. TensorFlow's converter puts the number that tells equal names apart right
    behind the name (`dw/depthwise1`), where it can be told only from a tensor with the name without it.
    """
    if exporter is None:
        return _plain(name)
    if exporter in (Exporter.TENSORFLOW, Exporter.ONNX2TF):
        found = _NUMBERED.fullmatch(name)
        name = found[1] if found and found[1] in tensors else name
    return list(dict.fromkeys(_READERS[exporter](name)))


def parts_of(name: str) -> list[str]:
    """Return the names that a converter joined with `;`, without the number that tells equal ones apart."""
    parts = list(dict.fromkeys(filter(None, name.split(";"))))
    return [part for part in parts if not _is_number(part)] or parts[:1]


def _is_number(part: str) -> bool:
    return part.isascii() and part.isdigit()


def _litert_torch(name: str) -> list[Source]:
    if not _MODULES.fullmatch(name):
        return _nodes(name)
    return [_instance(part) for part in parts_of(name)]


def _instance(path: str) -> Source:
    """Return a module: `net.Lm/net.Block_0/net.Att_attn` is `0.attn`, of the class `net.Att`.

    A class is divided from the name of its instance at the first underscore behind its first letters. What runs in
    the whole model itself, which has no name, is called by its class.
    """
    top, *inner = path.split("/")
    pairs = [_class_and_name(one) for one in inner]
    names = ".".join(name for _, name in pairs)
    class_name = pairs[-1][0] if pairs else top
    return Source(names or top, SourceDetails(path=names, class_name=class_name))


def _class_and_name(element: str) -> tuple[str, str]:
    module, dot, rest = element.rpartition(".")
    stem = rest.lstrip("_")
    class_name, _, name = stem.partition("_")
    return f"{module}{dot}{rest[: len(rest) - len(stem)]}{class_name}", name or rest


def _nodes(name: str) -> list[Source]:
    parts = parts_of(name)
    # What lies below another node is an input of it: the weights of `dense/MatMul` are `dense/MatMul/ReadVariableOp`.
    tops = [part for part in parts if not any(part.startswith(f"{other}/") for other in parts)]
    return [Source(part) for part in tops if not _CONSTANT.fullmatch(part)] or [Source(part) for part in tops]


def _plain(name: str) -> list[Source]:
    return [Source(name)] if name else []


_READERS: dict[Exporter, Callable[[str], list[Source]]] = {
    Exporter.TICO: _plain,
    Exporter.LITERT_TORCH: _litert_torch,
    Exporter.TENSORFLOW: _nodes,
    Exporter.ONNX2TF: _nodes,
}
