"""Indices and names that callers of an edit give."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from circletools.errors import EditError, UsageError
from circletools.flatbuf.overlay import FieldValue, NewTable, Overlay, References
from circletools.flatbuf.schema import Schema


def check_index(what: str, index: int, count: int) -> None:
    """Raise UsageError for an index that is not below `count`."""
    if not 0 <= index < count:
        raise UsageError(f"{what} {index} does not exist; there are {count}")


def member_number(members: Mapping[int, str], name: str, what: str) -> int:
    """Return the number of a member of an enum. Raises EditError where the format does not have it."""
    for value, known in members.items():
        if known == name:
            return value
    raise EditError(f"this format has no {what} {name}")


def change_option(overlay: Overlay, operators: References, index: int, name: str, value: FieldValue) -> None:
    """Set a field in the options of an operator. Raises UsageError for options that do not have it."""
    operator = operators[index]
    if isinstance(operator, int):  # in a file, one table can stand for several operators
        operator = operators[index] = overlay.copy("Operator", operator)
    for field in ("builtin_options", "builtin_options_2"):
        item = operator.type.by_name.get(field)
        options = None if item is None else operator[field]
        if item is not None and options is not None:
            code = operator.fields[item.type_slot]
            assert isinstance(code, bytes)
            member = overlay.schema.member(operator.type, item, int.from_bytes(code, "little"))
            assert isinstance(options, int | NewTable)
            table = overlay.copy(member, options) if isinstance(options, int) else options
            if name in table.type.by_name:
                table.set(name, value)
                operator.set(field, table)
                return
    raise UsageError(f"operator {index} has no option {name}")


def options_member(schema: Schema, member: str, fields: Iterable[str]) -> tuple[str, int]:
    """Return the field of an operator that an options table goes to, and its number there.

    Raises UsageError for a table or a field that the format does not have.
    """
    fields_of = {"BuiltinOptions": "builtin_options", "BuiltinOptions2": "builtin_options_2"}
    union = next((name for name in fields_of if member in schema.unions[name].values()), None)
    if union is None:
        raise UsageError(f"this format has no options table {member}")
    unknown = next((name for name in fields if name not in schema.tables[member].by_name), None)
    if unknown is not None:
        raise UsageError(f"{member} has no field {unknown}")
    return fields_of[union], member_number(schema.unions[union], member, "options table")
