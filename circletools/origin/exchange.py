"""Origins as JSON and CSV: the output of `dump-origins` and the input of `--origins`.

JSON: {"sources": [{"id", "name"}], "operators": [{"subgraph", "operator_index", "sources": [id]}]}. A source may also
have `path`, `class`, `file`, `line`, `call` and `caller`; further fields are for human readers, and are ignored. CSV:
one row for each operator-source pair, with the columns `subgraph, operator_index, source_id, source_name` and, if
there are any, these details; a row without operator_index only names a source.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from typing import Any

from circletools.errors import InvalidInputError, UsageError
from circletools.metadata.codec import encode_name
from circletools.origin.read import Origins
from circletools.origin.source import SourceDetails
from circletools.storage.documents import read_json
from circletools.wording import SCHEMA_VERSION

_MOST_SUBGRAPHS = 1 << 16
DETAIL_FIELDS = ("path", "class", "file", "line", "call", "caller")  # in the order of SourceDetails
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
    """Parse a document as CSV or JSON, depending on its file name. Raises InvalidInputError, with the location."""
    return parse_csv(text, name) if name.lower().endswith(".csv") else parse_json(text, name)


def parse_json(text: str, name: str = "JSON") -> Origins:
    """Parse a JSON document. Raises InvalidInputError."""
    document = read_json(text, name)
    if isinstance(document, dict) and document.get("schema_version", SCHEMA_VERSION) != SCHEMA_VERSION:
        raise InvalidInputError(f"schema_version {document['schema_version']!r} is not known", location=name)
    collected = _Collected(name)
    for index, source in enumerate(_items(document, "sources", name)):
        place = f"{name}: sources[{index}]"
        number, name_of_it = _number(source, "id", place), _string(source, "name", place)
        texts = {key: _string(source, key, place) if key in source else "" for key in DETAIL_FIELDS if key != "line"}
        line = _number(source, "line", place) if source.get("line") is not None else 0
        collected.source(number, name_of_it, _details(texts, line), place)
    for index, operator in enumerate(_items(document, "operators", name)):
        place = f"{name}: operators[{index}]"
        subgraph = _number(operator, "subgraph", place) if "subgraph" in operator else 0
        operator_index = _number(operator, "operator_index", place)
        sources = operator.get("sources", [])
        if not isinstance(sources, list):
            raise InvalidInputError("`sources` must be a list of ids", location=place)
        for source in sources:
            collected.pair(subgraph, operator_index, _whole(source, "a source id", place), place)
    return collected.origins()


def parse_csv(text: str, name: str = "CSV") -> Origins:
    """Parse a CSV document with a header line. Raises InvalidInputError."""
    rows = csv.DictReader(io.StringIO(text, newline=""), strict=True)
    collected = _Collected(name)
    limit = csv.field_size_limit(max(len(text), 1))  # a name may be as long as the document
    try:
        missing = {"operator_index", "source_id", "source_name"} - set(rows.fieldnames or ())
        if missing:
            raise InvalidInputError(
                f"no column {', '.join(sorted(missing))} in the header line", location=f"{name}:1"
            )
        for row in rows:
            place = f"{name}:{rows.line_num}"
            if None in row:
                raise InvalidInputError("the row has more fields than the header line", location=place)
            if row["operator_index"]:
                _whole(row["operator_index"], "operator_index", place)
            if None in row.values():
                raise InvalidInputError("the row has fewer fields than the header line", location=place)
            if not row["source_id"]:
                continue  # an operator without a source
            source = _whole(row["source_id"], "source_id", place)
            if source not in collected.sources:
                texts = {key: row.get(key) or "" for key in DETAIL_FIELDS}
                details = _details(texts, _whole(texts["line"] or "0", "line", place))
                collected.source(source, row["source_name"] or "", details, place)
            elif collected.sources[source] != row["source_name"]:
                raise InvalidInputError(f"source {source} has two names", location=place)
            if row["operator_index"]:
                subgraph = _whole(row.get("subgraph") or "0", "subgraph", place)
                collected.pair(subgraph, _whole(row["operator_index"], "operator_index", place), source, place)
    except csv.Error as error:
        raise InvalidInputError(f"not CSV: {error}", location=f"{name}:{rows.line_num}") from error
    finally:
        csv.field_size_limit(limit)
    return collected.origins()


class _Collected:
    """The sources and operator-source pairs read so far."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.sources: dict[int, str] = {}
        self.details: dict[int, SourceDetails] = {}
        self.subgraphs: dict[int, dict[int, set[int]]] = {}

    def source(self, source: int, name: str, details: SourceDetails, place: str) -> None:
        if source in self.sources:
            raise InvalidInputError(f"source {source} is listed twice", location=place)
        try:
            for text in (name, *details):
                encode_name(str(text))
        except UsageError as error:
            raise InvalidInputError(error.message, location=place) from error
        self.sources[source] = name
        if details != SourceDetails():
            self.details[source] = details

    def pair(self, subgraph: int, operator: int, source: int, place: str) -> None:
        if source not in self.sources:
            raise InvalidInputError(f"source {source} is not listed", location=place)
        self.subgraphs.setdefault(subgraph, {}).setdefault(operator, set()).add(source)

    def origins(self) -> Origins:
        count = max(self.subgraphs, default=0) + 1
        if count > _MOST_SUBGRAPHS:
            raise InvalidInputError(f"subgraph index {count - 1} is too large", location=self.name)
        described = (self.subgraphs.get(index, {}) for index in range(count))
        frozen = ({operator: frozenset(origin) for operator, origin in one.items()} for one in described)
        return Origins(self.sources, tuple(frozen), details=self.details)


def _details(texts: Mapping[str, str], line: int) -> SourceDetails:
    return SourceDetails(texts["path"], texts["class"], texts["file"], line, texts["call"], texts["caller"])


def _items(document: Any, key: str, name: str) -> list[Mapping[str, Any]]:
    items = document.get(key) if isinstance(document, dict) else None
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise InvalidInputError(f"`{key}` must be a list of objects", location=name, hint="see docs/formats.md")
    return items


def _number(item: Mapping[str, Any], key: str, place: str) -> int:
    if key not in item:
        raise InvalidInputError(f"`{key}` is missing", location=place)
    return _whole(item[key], f"`{key}`", place)


def _whole(value: Any, what: str, place: str) -> int:
    number = (
        int(value) if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 12 else value
    )
    if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number < 1 << 32:
        raise InvalidInputError(f"{what} must be a whole number below 2^32, not {value!r}", location=place)
    return number


def _string(item: Mapping[str, Any], key: str, place: str) -> str:
    if not isinstance(item.get(key), str):
        raise InvalidInputError(f"`{key}` must be a string", location=place)
    return str(item[key])
