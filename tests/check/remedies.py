"""Follow remedies in errors on types: names exist, calls take the arguments shown, and give what is wanted."""

from __future__ import annotations

import ast
import builtins
import inspect
import math
import pathlib
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any, get_args, get_origin, get_type_hints

import numpy as np

import circletools as ct
from circletools import arguments

ANY: Any = type("Anything", (), {})()
"""A value of the user, which may be of any type."""


def hollow(hint: Any) -> Any:
    """Return an object of an annotated class without contents, or a list with one."""
    hints = [one for one in arguments.kinds_of(hint) if one not in (None, type(None))]
    kind, inner = (get_origin(hints[0]) or hints[0], get_args(hints[0])) if len(hints) == 1 else (ANY, ())
    if (
        not isinstance(kind, type)
        or issubclass(kind, np.ndarray)
        or not (kind.__module__.startswith("circletools") or inner)
    ):
        return ANY
    if inner and issubclass(kind, Iterable):
        return [hollow(inner[-1] if issubclass(kind, dict) else inner[0])]
    if issubclass(kind, Enum):
        return next(iter(kind))
    if issubclass(kind, tuple):
        return tuple.__new__(kind, [ANY] * len(vars(kind)["_fields"]))
    return kind.__new__(kind) if kind.__module__.startswith("circletools") else ANY


def follow(code: str, own: Any = ANY) -> Any:
    """Return what code gives on hollow objects, where `_own` is `own`. Raises an error if it would fail."""
    classes = {name.lower(): kind for name, kind in vars(ct.types).items() if name in dir(ct.types)}
    classes |= {"model": ct.Model, "edit": ct.ModelEdit, "difference": ct.types.ModelDifference}
    objects = {name: hollow(kind) for name, kind in classes.items() if isinstance(kind, type)}
    modules = {"ct": ct, "math": math, "pathlib": pathlib}
    return _value(
        ast.parse(code).body[0], objects | modules | vars(builtins) | {"_own": own, "name": "", "shape": (1,)}
    )


def _value(node: ast.AST, names: Mapping[str, Any]) -> Any:  # noqa: PLR0911
    match node:
        case ast.Expr(value=inner):
            return _value(inner, names)
        case ast.Name(id=name):
            return names.get(name, ANY)
        case ast.Constant(value=plain):
            return plain
        case ast.Tuple(elts=items) | ast.List(elts=items):
            values = [_value(one, names) for one in items]
            return values if isinstance(node, ast.List) else tuple(values)
        case ast.ListComp(elt=item, generators=[ast.comprehension(target=ast.Name(id=name), iter=of)]):
            return [_value(item, {**names, name: _item(_value(of, names))})]
        case ast.Subscript(value=inner):
            return _item(_value(inner, names))
        case ast.Attribute(value=inner, attr=name):
            return _attribute(_value(inner, names), name)
        case ast.Call(func=inner, args=given, keywords=named):
            by_name = {str(one.arg): _value(one.value, names) for one in named}
            return _called(_value(inner, names), [_value(one, names) for one in given], by_name)
    for child in ast.iter_child_nodes(node):
        _value(child, names)
    return ANY


def _item(value: Any) -> Any:
    if isinstance(value, list):
        return value[0] if value else ANY
    of = [one for base in getattr(type(value), "__orig_bases__", ()) for one in get_args(base)]
    assert value is ANY or of, f"{type(value).__name__} has no items"
    return hollow(of[0]) if of else ANY


def _attribute(value: Any, name: str) -> Any:
    if value is ANY or inspect.ismodule(value):
        return ANY if value is ANY else getattr(value, name)
    held = getattr(type(value), name, None)
    if inspect.isfunction(held):
        return held.__get__(value)
    made = getattr(held, "fget", getattr(held, "func", None))
    hints = get_type_hints(made or type(value))
    is_set = held is not None or name in hints or f"self.{name}" in inspect.getsource(type(value))
    assert is_set, f"{type(value).__name__} has no {name}"
    return hollow(hints.get("return" if made else name, object))


def _called(call: Any, given: list[Any], named: Mapping[str, Any]) -> Any:
    if call is ANY or not str(getattr(call, "__module__", "")).startswith("circletools"):
        return given[0][0] if call is next and isinstance(given[0], list) else ANY
    hints = arguments.declared(call)[1]
    for name, value in inspect.signature(call).bind(*given, **named).arguments.items():
        fits = value is ANY or value == [ANY] or arguments.fits(value, hints.get(name, Any))
        assert fits, f"{call.__name__}: {name} is no {type(value).__name__}"
    return hollow(call if isinstance(call, type) else hints.get("return"))
