"""The jobs of this project done with the libraries one would use otherwise, a process for each.

`python -m benchmarks.peers NAME TASK IN [OUT]`

The tasks: `metadata` adds one entry and writes OUT, `operators` prints every operator with the names
of its outputs, `verify` checks the file, `repack` reads all objects and writes them again to OUT.
Nothing is imported before the task is known: the libraries live in different environments.
`python -m benchmarks.peers available` prints the names whose libraries this interpreter has.
"""

import importlib
import importlib.util
import mmap
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ENTRY_NAME = "benchmark"
ENTRY_BYTES = bytes(range(256)) * 4

Job = Callable[[Path, Path], None]


@dataclass(frozen=True)
class Peer:
    """A library, the file format it knows, and what it can do."""

    title: str
    modules: tuple[str, ...]
    suffix: str
    jobs: dict[str, Job]


def _entry(model: Any, metadata: Any, buffer: Any, data: Any) -> None:
    """Add the entry to a model of any object API: they share the names of the schema."""
    buffer.data = data
    metadata.name = ENTRY_NAME
    metadata.buffer = len(model.buffers)
    model.buffers.append(buffer)
    model.metadata = [*(model.metadata or []), metadata]


def _entry_data() -> Any:
    """Return the bytes as an array: that is the quick way into every builder."""
    return importlib.import_module("numpy").frombuffer(ENTRY_BYTES, dtype="uint8")


def _text(name: Any) -> str:
    return name.decode() if isinstance(name, bytes) else str(name or "")


def _code_names(enumeration: Any) -> dict[int, str]:
    return {code: name for name, code in vars(enumeration).items() if isinstance(code, int)}


def _print_lines(lines: Iterable[str]) -> None:
    sys.stdout.write("".join(f"{line}\n" for line in lines))


def _object_lines(model: Any, codes: dict[int, str]) -> Iterator[str]:
    """List the operators of a model of any object API."""
    kinds = [
        _text(code.customCode) or codes[max(code.builtinCode, code.deprecatedBuiltinCode)]
        for code in model.operatorCodes
    ]
    for graph in model.subgraphs:
        for index, operator in enumerate(graph.operators):
            outputs = " ".join(_text(graph.tensors[tensor].name) for tensor in operator.outputs)
            yield f"{index} {kinds[operator.opcodeIndex]} {outputs}"


def _accessor_lines(model: Any, codes: dict[int, str]) -> Iterator[str]:
    """List the operators of a model of any generated accessors, without unpacking it."""
    kinds = []
    for position in range(model.OperatorCodesLength()):
        code = model.OperatorCodes(position)
        number = max(code.BuiltinCode(), code.DeprecatedBuiltinCode())
        kinds.append(_text(code.CustomCode()) or codes[number])
    for number in range(model.SubgraphsLength()):
        graph = model.Subgraphs(number)
        for index in range(graph.OperatorsLength()):
            operator = graph.Operators(index)
            tensors = [graph.Tensors(operator.Outputs(i)) for i in range(operator.OutputsLength())]
            outputs = " ".join(_text(tensor.Name()) for tensor in tensors)
            yield f"{index} {kinds[operator.OpcodeIndex()]} {outputs}"


def _litert() -> tuple[Any, Any]:
    return (
        importlib.import_module("ai_edge_litert.tools.flatbuffer_utils"),
        importlib.import_module("ai_edge_litert.schema_py_generated"),
    )


def _litert_metadata(source: Path, destination: Path) -> None:
    utilities, schema = _litert()
    model = utilities.read_model(str(source))
    _entry(model, schema.MetadataT(), schema.BufferT(), _entry_data())
    utilities.write_model(model, str(destination))


def _litert_operators(source: Path, _: Path) -> None:
    utilities, schema = _litert()
    _print_lines(_object_lines(utilities.read_model(str(source)), _code_names(schema.BuiltinOperator)))


def _litert_repack(source: Path, destination: Path) -> None:
    utilities, _ = _litert()
    utilities.write_model(utilities.read_model(str(source)), str(destination))


def _quantizer_metadata(source: Path, destination: Path) -> None:
    """Write with the quantizer's own serializer, given nothing to quantize."""
    _, schema = _litert()
    reader = importlib.import_module("ai_edge_quantizer.utils.tfl_flatbuffer_utils")
    writer = importlib.import_module("ai_edge_quantizer.model_modifier")
    model = reader.read_model(str(source))
    _entry(model, schema.MetadataT(), schema.BufferT(), _entry_data())
    writer.ModelModifier(model).modify_model({}, serialize_to_path=str(destination), enable_progress_bar=False)


def _mapped(source: Path) -> mmap.mmap:
    """Map a file: reading it whole would charge these libraries for bytes that the task does not need."""
    with source.open("rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def _tflite_operators(source: Path, _: Path) -> None:
    schema = importlib.import_module("tflite")
    model = schema.Model.GetRootAs(_mapped(source), 0)
    _print_lines(_accessor_lines(model, _code_names(schema.BuiltinOperator)))


def _circle_schema() -> Any:
    return importlib.import_module("circle_schema").circle


def _circle_read(source: Path) -> Any:
    schema = _circle_schema()
    data = _mapped(source)
    if data[4:8] != b"CIR0":
        raise ValueError("not a Circle file")
    model = schema.Model.ModelT.InitFromPackedBuf(data, 0)
    array = importlib.import_module("numpy").frombuffer(data, dtype="uint8")
    for buffer in model.buffers or []:
        # Constants behind the structure are left out by the object API; it would write dead offsets.
        if buffer.offset > 1:
            buffer.data = array[buffer.offset : buffer.offset + buffer.size]
            buffer.offset = buffer.size = 0
    return model


def _circle_write(model: Any, destination: Path) -> None:
    builder = importlib.import_module("flatbuffers").Builder(1024)
    builder.Finish(model.Pack(builder), b"CIR0")
    destination.write_bytes(builder.Output())


def _circle_metadata(source: Path, destination: Path) -> None:
    schema = _circle_schema()
    model = _circle_read(source)
    _entry(model, schema.Metadata.MetadataT(), schema.Buffer.BufferT(), _entry_data())
    _circle_write(model, destination)


def _circle_operators(source: Path, _: Path) -> None:
    codes = _code_names(_circle_schema().BuiltinOperator.BuiltinOperator)
    _print_lines(_object_lines(_circle_read(source), codes))


def _circle_accessor_operators(source: Path, _: Path) -> None:
    schema = _circle_schema()
    model = schema.Model.Model.GetRootAs(_mapped(source), 0)
    _print_lines(_accessor_lines(model, _code_names(schema.BuiltinOperator.BuiltinOperator)))


def _circle_repack(source: Path, destination: Path) -> None:
    _circle_write(_circle_read(source), destination)


def _tico_document(source: Path) -> Any:
    """Map the file rather than load it: the cheaper of the two ways this library has."""
    return importlib.import_module("tico.circle.document").CircleDocument.load_mapped(str(source))


def _tico_metadata(source: Path, destination: Path) -> None:
    schema = _circle_schema()
    document = _tico_document(source)
    _entry(document.model, schema.Metadata.MetadataT(), schema.Buffer.BufferT(), _entry_data())
    document.save(str(destination))


def _tico_operators(source: Path, _: Path) -> None:
    codes = _code_names(_circle_schema().BuiltinOperator.BuiltinOperator)
    _print_lines(_object_lines(_tico_document(source).model, codes))


def _tico_verify(source: Path, _: Path) -> None:
    sys.exit(importlib.import_module("tico.circle.cli.main").main(["verify", str(source)]))


PEERS: dict[str, Peer] = {
    "litert": Peer(
        "LiteRT flatbuffer_utils",
        ("ai_edge_litert", "flatbuffers"),
        ".tflite",
        {"metadata": _litert_metadata, "operators": _litert_operators, "repack": _litert_repack},
    ),
    "ai-edge-quantizer": Peer(
        "ai-edge-quantizer writer", ("ai_edge_quantizer",), ".tflite", {"metadata": _quantizer_metadata}
    ),
    "tflite-accessors": Peer(
        "tflite accessors", ("tflite", "flatbuffers"), ".tflite", {"operators": _tflite_operators}
    ),
    "circle-schema": Peer(
        "circle-schema object API",
        ("circle_schema", "flatbuffers"),
        ".circle",
        {"metadata": _circle_metadata, "operators": _circle_operators, "repack": _circle_repack},
    ),
    "circle-accessors": Peer(
        "circle-schema accessors",
        ("circle_schema", "flatbuffers"),
        ".circle",
        {"operators": _circle_accessor_operators},
    ),
    "tico-circle": Peer(
        "tico.circle",
        ("tico", "circle_schema"),
        ".circle",
        {"metadata": _tico_metadata, "operators": _tico_operators, "verify": _tico_verify},
    ),
}


def available() -> list[str]:
    """Return the peers whose libraries this interpreter can find."""
    return [
        name
        for name, peer in PEERS.items()
        if all(importlib.util.find_spec(module) is not None for module in peer.modules)
    ]


def main(arguments: Sequence[str]) -> int:
    """Run one job."""
    if list(arguments) == ["available"]:
        _print_lines(available())
        return 0
    if len(arguments) not in {3, 4}:
        sys.stderr.write(f"{__doc__}\n")
        return 2
    name, task, source, destination = [*arguments, ""][:4]
    PEERS[name].jobs[task](Path(source), Path(destination))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
