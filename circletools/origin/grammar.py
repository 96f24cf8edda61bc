"""The forms of the tensor names that each exporter writes, and parsers that read sources from them.

    TICO            torch.nn.modules.linear.Linear::linear_2       class of the module, node of the graph
    litert-torch    net.Lm/net.Block_0/torch.nn.modules.linear.Linear_q;7
                                                                   classes and names of the modules; uniquifier
    TensorFlow      model/dense/MatMul;model/dense/BiasAdd         nodes in their name scopes
    onnx2tf         model/tf.nn.relu/Relu;model/tf.math.add/Add    the same, in a scope for each function

The last three join the names of fused operators, each of which is a source, with `;`. These exporters append a
number, which is not part of the source, to equal names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from circletools.origin.source import AnySource, Source, SourceDetails
from circletools.wording import Word

_WORD = r"[^\s:;/]+"
_TICO = re.compile(rf"({_WORD})::({_WORD})")
_MODULE = r"[^\s;/.]*\.[^\s;/]+"  # a class with the module that defines it, and possibly the name of the instance
_MODULES = re.compile(rf"(?:{_MODULE}(?:/{_MODULE}){{0,999}};;?){{1,999}}\d*")
_FUNCTION = re.compile(r"(?:^|/)tf\.[\w.]+/")
_NUMBERED = re.compile(r"(.*\D)\d+", re.DOTALL)
_CONVERTED = "MLIR Converted."  # the description that TensorFlow's converter writes
LONGEST = 100_000  # splitting a longer name would take far more memory than it
_CONSTANT = re.compile(r"(?:.*/)?Const(?:_?\d+)?", re.DOTALL)


class Exporter(Word):
    """An exporter whose tensor names can be parsed."""

    TICO = "TICO"
    LITERT_TORCH = "litert-torch"
    TENSORFLOW = "TensorFlow"
    ONNX2TF = "onnx2tf"


def exporter_of(description: str, names: Iterable[str]) -> Exporter | None:
    """Return the exporter that named the operators' outputs, judging by the names and the model's description.

    Returns None if the names have no known form. Later tools add tensors with other names, so the most frequent known
    form decides.
    """
    tico = modules = functions = nodes = 0
    plain = None
    for name in names:
        # First search for a substring that each form needs, in a tenth of the time of the regular expression.
        if "::" in name and _TICO.fullmatch(name):
            tico += 1
        elif "." in name and _MODULES.fullmatch(name):
            modules += 1
        elif "tf." in name and _FUNCTION.search(name):
            functions += 1
        elif "/" in name:
            nodes += 1
        elif name and description == _CONVERTED:
            plain = Exporter.TENSORFLOW
    counts = dict(zip(Exporter, (tico, modules, nodes, functions), strict=True))
    most = max(counts, key=counts.__getitem__)
    return most if counts[most] else plain


def reader_of(exporter: Exporter | None, tensors: Iterable[str] = ()) -> Callable[[str], Sequence[AnySource]]:
    """Return a parser that maps the name of an operator's first output to sources; an unknown form yields one source.

    `tensors` are the names of all tensors. TensorFlow's converter appends the number without a separator
    (`dw/depthwise1`); the number is recognized only if a tensor with the unnumbered name exists.
    """
    if exporter is Exporter.LITERT_TORCH:
        return _litert_torch
    if exporter is None or exporter is Exporter.TICO:
        return lambda name: [name] if name else []

    known: set[str] = set()

    def read_nodes(name: str) -> Sequence[AnySource]:
        known.update(() if known else tensors)
        found = _NUMBERED.fullmatch(name)
        return _nodes(found[1] if found and found[1] in known else name)

    return lambda name: read_nodes(name) if name[-1:].isdecimal() else _nodes(name)


def parts_of(name: str) -> list[str]:
    """Return the names that a converter joined with `;`, without the number that makes equal names unique."""
    parts = list(dict.fromkeys(filter(None, name.split(";"))))
    return [part for part in parts if not (part.isdigit() and part.isascii())] or parts[:1]


def _litert_torch(name: str) -> Sequence[AnySource]:
    if not _MODULES.fullmatch(name):
        return _nodes(name)
    return list(dict.fromkeys(map(_instance, parts_of(name))))


def _instance(path: str) -> Source:
    """Return the module of a path: for `net.Lm/net.Block_0/net.Att_attn`, `0.attn` of the class `net.Att`.

    The first underscore after the leading letters separates a class from the name of its instance. The top-level
    module has no name; a call in it is named after its class.
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


def _nodes(name: str) -> Sequence[AnySource]:
    if ";" not in name or len(name) > LONGEST:
        return [name] if name else []
    parts = name.split(";")
    if len(parts) == 2 and "Const" not in name:
        first, last = parts
        joined = first and last and first != last and not (first.isdigit() or last.isdigit())
        if joined and f"{first}/" not in name and f"{last}/" not in name:
            return parts  # the usual case: no name is dropped
    parts = parts_of(name)
    # A name below another node is one of its inputs: `dense/MatMul/ReadVariableOp` is the weights of `dense/MatMul`.
    if len(parts) > 1:
        top, kept = "", set[str]()
        for path in sorted(f"{part}/" for part in parts):  # names below a path follow it
            top = top if top and path.startswith(top) else path
            kept.add(top[:-1])
        parts = [part for part in parts if part in kept]
    if "Const" in name:
        parts = [part for part in parts if not _CONSTANT.fullmatch(part)] or parts
    return parts
