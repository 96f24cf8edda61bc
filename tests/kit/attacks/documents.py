"""Hostile documents: origins, rules, `.part` files, capability tables, baselines, costs."""

from __future__ import annotations

import json
from collections.abc import Callable

from tests.kit.attacks.attack import Attack

_DEEP = 100_000
_STATUS = {
    "origins-json": {"embed-origins": 3},
    "origins-csv": {"embed-origins": 3},
    "rules": {"partition": 3, "annotate-affinity": 3},
    "part": {"partition": 3, "annotate-affinity": 3},
    "capability": {"partition": 3, "annotate-affinity": 3, "fit": 3},
    "baseline": {"fit": 3},
    "costs": {"annotate-affinity": 3},
}


def documents() -> list[Attack]:
    """Return all of them."""
    return [*_any_json(), *_origins(), *_csv(), *_rules(), *_parts(), *_capabilities(), *_baselines(), *_costs()]


def _document(kind: str, name: str, message: str, make: Callable[[], bytes], status: int | None = 3) -> Attack:
    expect = {} if status is None else dict.fromkeys(_STATUS[kind], status)
    return Attack(f"{kind}-{name}", kind, message, make, expect)


def _any_json() -> list[Attack]:
    found = []
    for kind in ("origins-json", "rules", "capability", "baseline", "costs"):
        found += [
            _document(kind, "empty", "no byte at all", lambda: b""),
            _document(kind, "deep", "arrays nested 100,000 deep", lambda: b"[" * _DEEP),
            _document(kind, "deep-objects", "objects nested 100,000 deep", lambda: b'{"a":' * _DEEP),
            _document(kind, "integer", "an integer of 100,000 digits", lambda: b"9" * _DEEP),
            _document(
                kind, "version-deep", "a version that is an array, 900 deep", lambda: _version("[" * 900 + "]" * 900)
            ),
            _document(
                kind, "version-long", "a version that is a megabyte of text", lambda: _version(f'"{"v" * 10**6}"')
            ),
            _document(kind, "scalar", "a number where an object should be", lambda: b"1e400"),
            _document(kind, "not-text", "bytes that are not UTF-8", lambda: b"\xff\xfe\x00{"),
            _document(kind, "null", "null for everything", lambda: _version("null", "null")),
        ]
    return found


def _version(text: str, rest: str = "[]") -> bytes:
    others = "".join(f', "{key}": {rest}' for key in ("sources", "operators", "rules", "device", "default"))
    return f'{{"schema_version": {text}{others}}}'.encode()


def _origins() -> list[Attack]:
    def origins(name: str, message: str, sources: object, operators: object, status: int | None = 3) -> Attack:
        document = {"sources": sources, "operators": operators}
        return _document("origins-json", name, message, lambda: json.dumps(document).encode(), status)

    one = [{"id": 0, "name": "a"}]
    return [
        origins("id-large", "a source id of 2^32", [{"id": 1 << 32, "name": "a"}], []),
        origins("id-negative", "a source id of -1", [{"id": -1, "name": "a"}], []),
        origins("id-float", "a source id of 1e300", [{"id": 1e300, "name": "a"}], []),
        origins("id-true", "a source id of true", [{"id": True, "name": "a"}], []),
        origins("name-nul", "a source name with a NUL", [{"id": 0, "name": "a\0b"}], []),
        origins("name-surrogate", "a source name that is half a character", [{"id": 0, "name": "\ud800"}], []),
        origins("operator-far", "operator 2^32-1", one, [{"operator_index": 0xFFFFFFFF, "sources": [0]}], 3),
        origins(
            "subgraph-far", "subgraph 2^32-1", one, [{"subgraph": 0xFFFFFFFF, "operator_index": 0, "sources": [0]}]
        ),
        origins(
            "subgraph-many", "subgraph 65,535", one, [{"subgraph": 65535, "operator_index": 0, "sources": [0]}], 3
        ),
        origins(
            "pairs-many",
            "an operator that names one source 200,000 times",
            one,
            [{"operator_index": 0, "sources": [0] * 200_000}],
            0,
        ),
        origins(
            "sources-many",
            "an operator that names 100,000 sources",
            [{"id": at, "name": "a"} for at in range(100_000)],
            [{"operator_index": 0, "sources": list(range(100_000))}],
            0,
        ),
    ]


def _csv() -> list[Attack]:
    head = b"subgraph,operator_index,source_id,source_name\n"

    def csv(name: str, message: str, make: Callable[[], bytes], status: int | None = 3) -> Attack:
        return _document("origins-csv", name, message, make, status)

    return [
        csv("empty", "no byte at all", lambda: b""),
        csv("quote", "a quote that never ends, a megabyte of it", lambda: head + b'0,0,0,"' + b"x\n" * (1 << 19)),
        csv("wide", "a row of a million fields", lambda: head + b"," * 10**6),
        csv("head-wide", "a header line of a million fields", lambda: b"a," * 10**6 + b"\n"),
        csv("nul", "a NUL in a name", lambda: head + b"0,0,0,a\0b\n"),
        csv("digits", "an operator index of 100,000 digits", lambda: head + b"0," + b"9" * _DEEP + b",0,a\n"),
        csv("other-digits", "digits of another script", lambda: head + "0,٣,0,a\n".encode()),
        csv("subgraph-far", "subgraph 2^32-1", lambda: head + b"4294967295,0,0,a\n"),
        csv("returns", "a carriage return in the middle of a row", lambda: head + b"0,0\r,0,a\n"),
        csv(
            "pairs-many",
            "100,000 rows of one operator",
            lambda: head + b"".join(b"0,0,%d,a\n" % at for at in range(_DEEP)),
            0,
        ),
    ]


def _rules() -> list[Attack]:
    def rules(name: str, message: str, make: Callable[[], str], status: int | None = 3) -> Attack:
        return _document("rules", name, message, lambda: make().encode(), status)

    def selects(select: str) -> Callable[[], str]:
        return lambda: json.dumps({"default": "cpu", "rules": [{"select": select, "device": "npu"}]})

    return [
        rules(
            "objects-many", "300,000 rules, each an empty object", lambda: '{"rules": [' + "{},\n" * 300_000 + "{}]}"
        ),
        rules("keys-many", "100,000 keys, the last two the same", _many_keys),
        rules("keys-large", "a key of a megabyte", lambda: f'{{"{"k" * 10**6}": 1}}'),
        rules("glob-stars", "a glob of 2,000 stars", selects("name:" + "*a" * 2000 + "b"), 2),
        rules("glob-long", "a glob of a megabyte", selects("name:" + "a" * 10**6), 2),
        rules("glob-brackets", "a glob of a hundred thousand brackets", selects("name:" + "[!" * 10**5), 2),
        rules("index-huge", "an operator of ten digits", selects("index:0-9999999999"), 2),
        rules("index-far", "operators 0 to 999,999,999", selects("index:0-999999999"), 2),
        rules("index-many", "one operator 300,000 times", selects("index:" + "0," * 300_000 + "0"), 0),
        rules("device-missing", "a device that is not among those given", lambda: '{"default": "x\\u001b[2J\\n"}', 2),
        rules("surrogate", "a device that is half a character", lambda: '{"default": "\\ud800"}', 2),
    ]


def _many_keys() -> str:
    return "{" + ", ".join(f'"k{min(at, 99_998)}": 1' for at in range(100_000)) + "}"


def _parts() -> list[Attack]:
    head = b"[partition]\nbackends=npu,cpu\ndefault=cpu\ncomply=opname\n"

    def part(name: str, message: str, make: Callable[[], bytes], status: int | None = 3) -> Attack:
        return _document("part", name, message, make, status)

    return [
        part("empty", "no byte at all", lambda: b""),
        part("nul", "a NUL in a key", lambda: head + b"[OPNAME]\na\0b=npu\n"),
        part("line-long", "a line of a megabyte without a =", lambda: head + b"[OPNAME]\n" + b"x" * (1 << 20)),
        part("section-long", "a section named with a megabyte", lambda: b"[" + b"x" * (1 << 20) + b"]"),
        part(
            "escapes",
            "a key of a hundred thousand backslashes",
            lambda: head + b"[OPNAME]\n" + b"\\" * 10**5 + b"=npu\n",
            0,
        ),
        part(
            "escapes-mixed",
            "a key of backslashes and semicolons",
            lambda: head + b"[OPNAME]\n" + b"\\;" * 10**5 + b"=npu\n",
            0,
        ),
        part("sections", "a hundred thousand sections", lambda: head + b"[OPNAME]\n" * 10**5, None),
        part(
            "backends", "a hundred thousand backends", lambda: head.replace(b"npu,cpu", b"x," * 10**5 + b"cpu"), None
        ),
        part("rules-many", "100,000 rules that match nothing", lambda: head + b"[OPNAME]\n" + _part_rules(), 0),
        part("not-text", "bytes that are not UTF-8", lambda: bytes(range(128, 256)) * 100),
    ]


def _part_rules() -> bytes:
    return b"".join(b"no%d=npu\n" % at for at in range(100_000))


def _capabilities() -> list[Attack]:
    def capability(name: str, message: str, form: object, status: int | None = 3) -> Attack:
        document = {"device": "npu", "operators": {"CONV_2D": [form]}}
        return _document("capability", name, message, lambda: json.dumps(document).encode(), status)

    return [
        capability("rank-huge", "a rank of at most 10^4000", {"max_rank": 10**4000}, None),
        capability("rank-negative", "a rank of at least -1", {"min_rank": -1}),
        capability("option-huge", "an option of 10^400", {"options": {"stride_w": [10**400]}}),
        capability("option-nan", "an option of NaN", {"options": {"stride_w": [float("nan")]}}),
        capability("types-many", "200,000 types", {"types": ["FLOAT32"] * 200_000}, None),
        capability("type-long", "a type of a megabyte", {"types": ["F" * 10**6]}),
        capability("pattern-long", "a type of 200,000 words", {"types": ["FLOAT32 " + "constant " * 200_000]}),
        capability("inputs-many", "200,000 inputs", {"inputs": ["FLOAT32"] * 200_000}, None),
        _document("capability", "keys-many", "30,000 keys, the last two the same", lambda: _many_keys().encode()),
    ]


def _baselines() -> list[Attack]:
    def baseline(name: str, message: str, *targets: object, status: int | None = 3) -> Attack:
        document = {"schema_version": 1, "targets": targets}
        return _document("baseline", name, message, lambda: json.dumps(document).encode(), status)

    finding = {"code": "ADD", "reason": "onert-ruy does not support ADD", "origin": ["x"]}
    return [
        baseline("target-scalar", "a target that is a number", 7),
        baseline("target-list", "a name that is a list", {"target": ["onert-ruy"], "findings": []}),
        baseline("finding-scalar", "a finding that is a number", {"target": "onert-ruy", "findings": [7]}),
        baseline(
            "finding-bare", "a finding without a reason", {"target": "onert-ruy", "findings": [{"code": "ADD"}]}
        ),
        baseline("origin-scalar", "an origin that is a number", _baseline_of(finding | {"origin": 7})),
        baseline("findings-many", "200,000 findings", _baseline_of(*[finding] * 200_000), status=None),
        baseline("targets-many", "100,000 targets", *[_baseline_of()] * 100_000, status=None),
        _document("baseline", "lines-many", "100,000 documents", lambda: b'{"schema_version": 1}\n' * 100_000, None),
    ]


def _baseline_of(*findings: object) -> dict[str, object]:
    return {"target": "onert-ruy", "findings": findings}


def _costs() -> list[Attack]:
    def costs(name: str, message: str, *devices: object, status: int | None = 3, **more: object) -> Attack:
        document = {"schema_version": 1, "devices": devices, **more}
        return _document("costs", name, message, lambda: json.dumps(document).encode(), status)

    def device(name: str = "npu", **fields: object) -> dict[str, object]:
        return {"name": name, "operators": [{"select": "index:0-3", "time_us": 1, **fields}]}

    many = [{"select": f"index:{index % 9}", "time_us": index} for index in range(20_000)]
    return [
        costs("time-huge", "a time of 1e400, which is infinite", device(time_us=10**400)),
        costs("time-negative", "a time below nothing", device(time_us=-1)),
        costs("time-nan", "a time that is not a number", device(time_us=float("nan"))),
        costs("rate-nothing", "no byte in a microsecond", device(bytes_per_us=0)),
        costs("rate-least", "a rate whose inverse is infinite", device(bytes_per_us=5e-324), status=None),
        costs("times-large", "times whose sum is infinite", device(time_us=1e308), status=None),
        costs("device-twice", "a device twice", device(), device()),
        costs("rows-many", "20,000 times for nine operators", {"name": "npu", "operators": many}, status=None),
        costs("devices-many", "20,000 devices", *(device(f"d{index}") for index in range(20_000)), status=None),
        costs("link-unknown", "a copy to a device that is none", device(), transfers=[{"from": "npu", "to": "x"}]),
    ]
