"""Check indices and names given by callers of an edit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from circletools.errors import EditError, UsageError
from circletools.flatbuf.overlay import FieldValue, Overlay, References
from circletools.flatbuf.schema import Schema
from circletools.model.options import OPTION_FIELDS
from circletools.wording import did_you_mean


def check_index(what: str, index: int, count: int) -> None:
    """Raise UsageError for an index that is not below `count`."""
    if not 0 <= index < count:
        raise UsageError(f"{what} {index} does not exist; there are {count}")


def member_number(members: Mapping[int, str], name: str, what: str) -> int:
    """Return the value of an enum member. Raises EditError if the format does not have it."""
    for value, known in members.items():
        if known == name:
            return value
    raise EditError(f"this format has no {what} {name}", hint=did_you_mean(name, members.values()))


def change_option(overlay: Overlay, operators: References, index: int, name: str, value: FieldValue) -> None:
    """Set a field in the options of an operator. Raises UsageError if the options do not have it."""
    operator = overlay.own(operators, "Operator", index)
    for field in OPTION_FIELDS:
        item = operator.type.by_name.get(field)
        if item is not None and operator[field] is not None:
            code = operator.fields[item.type_slot]
            assert isinstance(code, bytes)
            member = overlay.schema.member(operator.type, item, int.from_bytes(code, "little"))
            table = overlay.below(operator, field, member)
            if table is not None and name in table.type.by_name:
                table.set(name, value)
                operator.set(field, table)
                return
    raise UsageError(f"operator {index} has no option {name}")


def options_member(schema: Schema, member: str, fields: Iterable[str]) -> tuple[str, int]:
    """Return the operator's union field for an options table, and the table's union code.

    Raises UsageError if the format does not have the table or a field.
    """
    fields_of = dict(zip(("BuiltinOptions", "BuiltinOptions2"), OPTION_FIELDS, strict=True))
    union = next((name for name in fields_of if member in schema.unions[name].values()), None)
    if union is None:
        raise UsageError(f"this format has no options table {member}")
    unknown = next((name for name in fields if name not in schema.tables[member].by_name), None)
    if unknown is not None:
        raise UsageError(f"{member} has no field {unknown}")
    return fields_of[union], member_number(schema.unions[union], member, "options table")
