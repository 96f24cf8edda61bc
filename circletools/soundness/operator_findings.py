"""Check operators against LiteRT's kernels: codes, versions, numbers of inputs and outputs, and enum values.

The kernels' requirements were measured (`tools.measure.operators`) and are stored in schema/litert.json.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from circletools.errors import shortened
from circletools.findings import Finding
from circletools.flatbuf.columns import distinct
from circletools.flatbuf.schema import load_roles, schema_document
from circletools.model.model import Model
from circletools.model.options import enum_of_field
from circletools.model.verify import findings_at
from circletools.soundness.graph_findings import CORRECT
from circletools.soundness.kernel_findings import kernel_findings
from circletools.soundness.whole import Whole, first_slots, is_rewritten
from circletools.wording import counted

_SCHEMA_VERSION = 3
_MANY = 1 << 40
_TYPES = 256  # larger than any version
_PLACEHOLDER = 127
_STEPS = re.compile(r"(stride|dilation)_[dhw](_factor)?")
_LONGEST_STEP = 1 << 16
_LONGEST = 100
_UNCOUNTED = ("SLICE", "STRIDED_SLICE", "BATCH_MATMUL", "ASSIGN_VARIABLE", "READ_VARIABLE")
"""The operators of which LiteRT's XNNPACK delegate ignores surplus inputs and outputs."""


def _litert(key: str) -> Mapping[str, Any]:
    """Return a part of LiteRT's table: its kernels by operator name, or custom operators by runtime."""
    found: Mapping[str, Any] = schema_document("litert")[key]
    return found


def operator_findings(model: Model, whole: Whole) -> Iterator[Finding]:
    """Yield findings about operators; all indices of the model must be in range."""
    if model.format == "tflite" and model.version != _SCHEMA_VERSION:
        message = f"the schema version is {model.version}, not {_SCHEMA_VERSION}; LiteRT refuses the model"
        yield Finding("SCHEMA_VERSION", "warning", "model.version", message)
    if not len(model.buffers):
        refused = "LiteRT refuses the model; " * (model.format == "tflite" and not model.root.has("buffers")[0])
        yield Finding("NO_BUFFERS", "warning", "model", f"there are no buffers; {refused}{CORRECT}")
    present = np.append(model.buffers.tables.has("data") | (model.buffers.tables.scalars("offset") > 0), True)
    for one in model.metadata:
        if not present[min(one.buffer, len(present) - 1)]:
            message = f"{one.name} has no data; onert refuses the model"
            yield Finding("NO_METADATA", "info", f"metadata[{one.index}].buffer", message)
    if (model.buffers.tables.has("data") & (model.buffers.data.count == 0))[:1].any():
        yield from _taken_for_constants(whole)
    if not model.root.has("operator_codes")[0]:
        message = f"there is no list of operator codes; TICO's tools refuse the model; {CORRECT}"
        yield Finding("NO_OPERATOR_CODES", "info", "model", message)
    used = distinct(whole.operators.code_indices).tolist()
    yield from _codes(model, used)
    if model.format == "tflite":
        yield from _versions(model, used)
        yield from _counts(model, whole)
        yield from _types(model, whole, used)
        yield from kernel_findings(model, whole, _litert("operators"))
    yield from _options(model, whole)


def _taken_for_constants(whole: Whole) -> Iterator[Finding]:
    """Find computed tensors that onert reads from buffer 0, which exists but is empty."""
    made = np.flatnonzero(whole.first_producer >= 0)
    inner = np.setdiff1d(made[whole.graph.values.buffers[made] == 0], whole.graph.outputs)
    if inner.size:
        message = f"onert treats {counted(inner.size, 'computed tensor')} as constants and writes past their end"
        yield Finding("SENTINEL_BUFFER_NOT_EMPTY", "info", "buffers[0]", f"it has an empty field `data`; {message}")


def _codes(model: Model, used: list[int]) -> Iterator[Finding]:
    tables = model.root.children("operator_codes", model.schema)[0]
    read = tables.scalars("deprecated_builtin_code").tolist()
    for index in used:
        code = model.operator_codes[index]
        place = f"operator_codes[{index}]"
        if code.name.startswith("UNKNOWN:"):
            yield Finding("UNKNOWN_OPERATOR", "warning", place, f"no operator has the code {code.code}; {CORRECT}")
        elif code.name == "CUSTOM:":
            yield Finding("UNKNOWN_OPERATOR", "warning", place, f"a custom operator has no name; {CORRECT}")
        elif model.format == "tflite" and read[index] != min(code.code, _PLACEHOLDER):
            differ = f"builtin_code is {code.name}, but deprecated_builtin_code is not"
            message = f"{differ}; onert and OpenVINO read the latter; {CORRECT}"
            yield Finding("OLD_OPERATOR_CODE", "info", place, message)


def format_findings(model: Model) -> Iterator[Finding]:
    """Yield a finding if LiteRT does not load the model: it reads only files with TFL3 (`VerifyModelBuffer`)."""
    if model.format == "circle":
        message = "LiteRT does not load Circle files; give it the TFLite model, or run this one with onert"
        yield Finding("SCHEMA_VERSION", "warning", "model", message)


def unresolved_findings(model: Model, programs: Iterable[str]) -> Iterator[Finding]:
    """Yield findings about custom operators and data that `programs` (litert, onert) cannot run or read.

    An operator implemented only by LiteRT's XNNPACK delegate loads if the delegate takes it, as it does by default.
    """
    outside = np.flatnonzero(model.buffers.external)
    outside = outside[np.isin(outside, model.tensor_columns.buffers)] if outside.size else outside
    if "onert" in programs and outside.size:
        message = f"onert does not read the data of {counted(outside.size, 'buffer')} outside the flatbuffer"
        yield Finding("CONSTANT_TOO_SHORT", "warning", f"buffers[{outside[0]}]", message)
    known = _litert("custom")
    for index in distinct(model.operator_columns.code_indices).tolist():
        name = model.operator_codes[index].name if index < len(model.operator_codes) else ""
        for who in ("LiteRT", "onert"):
            if name.startswith("CUSTOM:") and who.lower() in programs and name[7:] not in known[who]:
                shown = shortened(name, _LONGEST)
                message = f"{who} has no kernel for {shown}: register one"
                if who == "LiteRT" and name[7:] in known["delegate"]:
                    message = f"only LiteRT's XNNPACK delegate has a kernel for {shown}: use it or register one"
                yield Finding("UNKNOWN_OPERATOR", "warning", f"operator_codes[{index}]", message)


def _versions(model: Model, used: list[int]) -> Iterator[Finding]:
    """Look up the codes as LiteRT does; it also needs a kernel for codes that no operator uses."""
    for index, code in enumerate(model.operator_codes):
        kernel, others = _litert("operators").get(code.name), ("CUSTOM:", "UNKNOWN:")[: 1 + (index in used)]
        least, most = kernel["versions"] if kernel else (1, 0)
        if not least <= code.version <= most and (kernel or not code.name.startswith(others)):
            span = f"only for versions {least} to {most}" if least < most else f"only for version {least}"
            there = f"version {code.version} of {code.name}, {span}" if most else f"any version of {code.name}"
            message = f"LiteRT has no kernel for {there}"
            yield Finding("OPERATOR_VERSION", "warning", f"operator_codes[{index}].version", message)


def _counts(model: Model, whole: Whole) -> Iterator[Finding]:
    """Compare the numbers of inputs and outputs with those of LiteRT's kernels."""
    codes = whole.operators.code_indices
    delegated = [model.schema.enum_value("TensorType", name) for name in ("FLOAT32", "INT8", "UINT8", "RESOURCE")]
    for side in ("inputs", "outputs"):
        known = [_litert("operators").get(code.name, {}).get(side) or (0, None) for code in model.operator_codes]
        spans = np.array([(least, _MANY if most is None else most) for least, most in known]).reshape(-1, 2)
        counts: NDArray[np.int64] = getattr(whole.operators, side).count
        wrong = np.flatnonzero((counts < spans[codes, 0]) | (counts > spans[codes, 1]))

        def message(row: int, what: str = side[:-1], counts: NDArray[np.int64] = counts, spans: Any = spans) -> str:
            least, most = spans[codes[row]].tolist()
            wanted = f"{least} or more" if most == _MANY else f"{least} to {most}" if least < most else str(least)
            name, first = model.operator_codes[codes[row]].name, first_slots(whole.graph, np.array([row]), 1)[0, 0]
            if counts[row] > most and name in _UNCOUNTED and whole.tensors.types[first] in delegated:
                wanted += ", unless its XNNPACK delegate runs the operator"
            return f"{name} has {counts[row]} {what}{'' if counts[row] == 1 else 's'}; LiteRT's kernel takes {wanted}"

        yield from findings_at("OPERATOR_SLOTS", wrong, whole.operator, message)


def _types(model: Model, whole: Whole, used: list[int]) -> Iterator[Finding]:
    """Find combinations of types that LiteRT's kernels refuse, in the required inputs and the output.

    The table has a letter for each type. Another type is refused if no letter in its place would be accepted.
    """
    known_letters = _litert("letters")
    numbers = {number: known_letters.get(name, "?") for number, name in model.schema.enums["TensorType"].items()}
    kinds, letters = model.tensor_columns.types, frozenset(known_letters.values())
    for name in dict.fromkeys(model.operator_codes[one].name for one in used):
        kernel = _litert("operators").get(name, {})
        if "types" not in kernel:
            continue
        taken, count = frozenset(kernel["types"].split()), kernel["inputs"][0]
        rows = np.flatnonzero(whole.graph.operators.is_code(name))
        slots = first_slots(whole.graph, rows, count)
        known = (slots >= 0).all(axis=1) & ~is_rewritten(whole, slots[:, :-1]).any(axis=1)
        rows, slots = rows[known], slots[known]
        combined = kinds[slots].astype(np.int64) @ (_TYPES ** np.arange(count + 1))
        _, first, which = np.unique(combined, return_index=True, return_inverse=True)
        texts = ["".join(numbers.get(number, "?") for number in one) for one in kinds[slots[first]].tolist()]
        refused = [not any(text.replace("?", one) in taken for one in letters - {*text}) for text in texts]

        def message(at: int, name: str = name, slots: NDArray[np.int64] = slots) -> str:
            names = [model.schema.enums["TensorType"].get(number, "?") for number in kinds[slots[at]].tolist()]
            return f"LiteRT's kernel for {name} does not support {', '.join(names[:-1])} -> {names[-1]}"

        def place(at: int, rows: NDArray[np.int64] = rows) -> str:
            return whole.operator(int(rows[at]))

        bad = np.flatnonzero(np.array(refused, np.bool_)[which.reshape(-1)])
        yield from findings_at("OPERATOR_TYPES", bad, place, message)


def _options(model: Model, whole: Whole) -> Iterator[Finding]:
    """Find enums, strides and dilations that no runtime supports; skip options of another operator code."""
    codes = [code.name.replace("_", "") for code in model.operator_codes]
    for rows, chosen in whole.graph.operators.options:
        name = chosen.type.name
        own = np.array([name[: -len("Options")].upper() in code for code in codes], np.bool_)
        mine = np.flatnonzero(own[whole.operators.code_indices[rows]])
        read = chosen.take(mine[np.unique(chosen.at[mine], return_index=True)[1]])
        for field in chosen.type.fields if len(read) else ():
            role = load_roles().get((name, field.name))
            kind = None if role is None else role.kind
            enum = enum_of_field(name, field.name) or "MirrorPadMode" * (name == "MirrorPadOptions")
            members = model.schema.enums.get(enum)
            if kind != "subgraph" and members is None and not _STEPS.fullmatch(field.name):
                continue
            every = read.vectors(field.name).flat() if field.kind == "vector" else read.scalars(field.name)
            values = distinct(every)
            if kind == "subgraph":
                known, allowed = values >= 0, "not a subgraph"
            elif members is not None:
                known, allowed = np.isin(values, list(members)), f"not a member of {enum}"
            else:
                known, allowed = (values > 0) & (values < _LONGEST_STEP), "not a valid stride or dilation"
            for value in values[~known].tolist():
                message = f"the value is {value}, which is {allowed}; {CORRECT}"
                yield Finding("UNKNOWN_OPTION", "warning", f"{name}.{field.name}", message)
