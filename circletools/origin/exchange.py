"""Origins as JSON and CSV (docs/formats.md): the output of `dump-origins` and the input of `--origins`."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping
from typing import Any

from circletools.errors import InvalidInputError, UsageError
from circletools.metadata.codec import encode_name
from circletools.origin.read import Origins
from circletools.origin.source import NOTHING, SourceDetails
from circletools.storage.documents import read_json
from circletools.wording import SCHEMA_VERSION

_MOST_SUBGRAPHS = 1 << 16
DETAIL_FIELDS = ("path", "class", "file", "line", "call", "caller")  # in the order of SourceDetails
_NUMBERS = ("subgraph", "operator_index", "source_id", "line")
CSV_COLUMNS = ("subgraph", "operator_index", "code", "output", "source_id", "source_name", *DETAIL_FIELDS)


def origins_document(origins: Origins) -> dict[str, Any]:
    """Return origins as a JSON document."""
    return {
        "schema_version": SCHEMA_VERSION,
        "sources": [source_json(origins, source) for source in sorted(origins.sources)],
        "operators": [
            {"subgraph": subgraph, "operator_index": operator, "sources": sorted(origin)}
            for subgraph, operators in enumerate(origins.operators)
            for operator, origin in sorted(operators.items())
        ],
    }


def source_json(origins: Origins, source: int) -> dict[str, Any]:
    """Return a source as JSON, with its name and details."""
    return {"id": source, "name": origins.sources[source], **details_json(origins.details_of(source))}


def details_json(details: SourceDetails) -> dict[str, str | int]:
    """Return the details of a source as JSON fields."""
    values: tuple[str | int, ...] = details
    return {key: value for key, value in zip(DETAIL_FIELDS, values, strict=True) if value}


def parse_origins(text: str, name: str) -> Origins:
    """Parse a document: CSV if `name` ends in .csv, otherwise JSON. Raises InvalidInputError, which gives `name`."""
    return parse_csv(text, name) if name.lower().endswith(".csv") else parse_json(text, name)


def parse_json(text: str, name: str = "JSON") -> Origins:
    """Parse a JSON document. Raises InvalidInputError."""
    document = read_json(text, name)
    if isinstance(document, dict) and document.get("schema_version", SCHEMA_VERSION) != SCHEMA_VERSION:
        raise InvalidInputError(f"schema_version {document['schema_version']!r} is not known", location=name)
    collected = _Collected()
    for index, source in enumerate(_items(document, "sources", name)):
        place = f"{name}: sources[{index}]"
        if _whole(source, "id", place) in collected.sources:
            raise InvalidInputError(f"source {source['id']} is listed twice", location=place)
        collected.source(source, place)
    for index, operator in enumerate(_items(document, "operators", name)):
        place = f"{name}: operators[{index}]"
        sources = operator.get("sources", [])
        if not isinstance(sources, list):
            raise InvalidInputError("`sources` must be a list of ids", location=place)
        listed = {f"sources[{at}]": source for at, source in enumerate(sources)}
        collected.pair(operator, [_whole(listed, key, place) for key in listed], place)
    return collected.origins(name)


def parse_csv(text: str, name: str = "CSV") -> Origins:
    """Parse a CSV document with a header line. Raises InvalidInputError."""
    rows = csv.DictReader(io.StringIO(text, newline=""), strict=True)
    collected = _Collected()
    limit = csv.field_size_limit(max(len(text), 1))  # a name may be as long as the document
    try:
        missing = {"operator_index", "source_id", "source_name"} - set(rows.fieldnames or ())
        if missing:
            raise InvalidInputError(f"the header line lacks {', '.join(sorted(missing))}", location=f"{name}:1")
        for row in rows:
            place = f"{name}:{rows.line_num}"
            if None in row or None in row.values():
                how = "more" if None in row else "fewer"
                raise InvalidInputError(f"the row has {how} fields than the header line", location=place)
            given: dict[str, Any] = {key: _cell(key, value) for key, value in row.items() if value}
            sources: list[int] = []
            if "source_id" in given:  # otherwise, an operator without a source
                given |= {"id": _whole(given, "source_id", place), "name": row["source_name"]}
                sources.append(collected.source(given, place))
            if "operator_index" in given:
                collected.pair(given, sources, place)
    except csv.Error as error:
        raise InvalidInputError(f"not CSV: {error}", location=f"{name}:{rows.line_num}") from error
    finally:
        csv.field_size_limit(limit)
    return collected.origins(name)


class _Collected:
    """The sources and operator-source pairs read so far."""

    def __init__(self) -> None:
        self.sources: dict[int, str] = {}
        self.details: dict[int, SourceDetails] = {}
        self.subgraphs: dict[int, dict[int, set[int]]] = {}
        self.stated: dict[tuple[int, int], tuple[str, str]] = {}

    def source(self, item: Mapping[str, Any], place: str) -> int:
        """Add a source, unless it is known; return its id."""
        source, name = _whole(item, "id", place), _string(item, "name", place)
        if source in self.sources:
            if self.sources[source] != name:
                raise InvalidInputError(f"source {source} has two names", location=place)
            return source
        path, class_name, file, call, caller = (
            _string({key: "", **item}, key, place) for key in DETAIL_FIELDS if key != "line"
        )
        line = 0 if item.get("line") is None else _whole(item, "line", place)
        details = SourceDetails(path, class_name, file, line, call, caller)
        self.sources[source] = name
        if details != NOTHING:
            self.details[source] = details
        return source

    def pair(self, item: Mapping[str, Any], sources: Iterable[int], place: str) -> None:
        """Add an operator's sources, and what the document states about the operator."""
        subgraph = _whole(item, "subgraph", place) if "subgraph" in item else 0
        operator = _whole(item, "operator_index", place)
        if "code" in item:
            self.stated[subgraph, operator] = str(item["code"]), str(item.get("output", ""))
        for source in sources:
            if source not in self.sources:
                raise InvalidInputError(f"source {source} is not listed", location=place)
            self.subgraphs.setdefault(subgraph, {}).setdefault(operator, set()).add(source)

    def origins(self, name: str) -> Origins:
        """Return everything that was read."""
        count = max(self.subgraphs, default=0) + 1
        if count > _MOST_SUBGRAPHS:
            raise InvalidInputError(f"subgraph index {count - 1} is too large", location=name)
        described = (self.subgraphs.get(index, {}) for index in range(count))
        frozen = ({operator: frozenset(origin) for operator, origin in one.items()} for one in described)
        return Origins(self.sources, tuple(frozen), details=self.details, document=name, stated=self.stated)


def _items(document: Any, key: str, name: str) -> list[Mapping[str, Any]]:
    items = document.get(key) if isinstance(document, dict) else None
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise InvalidInputError(f"`{key}` must be a list of objects", location=name, hint="see docs/formats.md")
    return items


def _cell(column: str, text: str) -> str | int:
    is_number = column in _NUMBERS and text.isascii() and text.isdigit() and len(text) < 12
    return int(text) if is_number else text


def _whole(item: Mapping[str, Any], key: str, place: str) -> int:
    value = item.get(key)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 1 << 32:
        wrong = "is missing" if key not in item else f"must be a whole number below 2^32, not {value!r}"
        raise InvalidInputError(f"`{key}` {wrong}", location=place)
    return value


def _string(item: Mapping[str, Any], key: str, place: str) -> str:
    value = item.get(key)
    if not isinstance(value, str):
        raise InvalidInputError(f"`{key}` must be a string", location=place)
    try:
        encode_name(value)
    except UsageError as error:
        raise InvalidInputError(error.message, location=place) from error
    return value
