"""Write a wrong call as it was probably meant: keep arguments that fit, and suggest code for the others."""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, get_args, get_origin

from circletools.arguments import classes_in, declared, fits, in_range, taken
from circletools.corrections.requests import Named, any_meant, placed, request, request_of
from circletools.corrections.rules import MODEL, is_file
from circletools.corrections.snippets import (
    Variables,
    in_own_names,
    is_needed,
    kept,
    maker_of,
    placeholder,
    shown,
    variable_of,
    variables_of,
)
from circletools.corrections.words import foreign, same_name

_NOTHING = object()


@dataclass
class _Sorted:
    """The arguments of a call: those that fit, those that do not, surplus ones, and unknown keywords."""

    held: Named
    wrong: Named
    loose: list[Any]
    unknown: Named


def corrected(
    title: str, call: Callable[..., Any], given: tuple[Any, ...], named: Mapping[str, Any], owner: type | None
) -> str:
    """Return what to write instead of a wrong call; for a method, `owner` is its class."""
    variables, name = variables_of(), title.rpartition(".")[2]
    if owner is not None and (not given or title.endswith(f".{owner.__name__}")):
        return in_own_names(f"write {maker_of(owner)}" if given else f"{maker_of(owner)} makes one", variables)
    removing = name.replace("set_", "remove_")
    if any(one is None for one in given) and hasattr(owner, removing):  # edit.set_metadata("a", None)
        kept_ones = tuple(one for one in given if one is not None)
        return corrected(title.replace(name, removing), getattr(owner, removing), kept_ones, named, owner)
    (signature, hints), saved = declared(call), _NOTHING
    has_edit = any(type(one).__name__ == "ModelEdit" for one in (*given, *named.values()))
    if "edit" in hints and (not has_edit or len(given) > len(taken(call))):  # fix("in", "out.tflite")
        saved = next((one for one in (*given[1:], *named.values()) if is_file(one, MODEL)), _NOTHING)
    given, named = tuple(one for one in given if one is not saved), {k: v for k, v in named.items() if v is not saved}
    found = _sorted_out(call, given["self" in signature.parameters :], named)
    if title.endswith("Request"):
        _place_fields(type(given[0]), found, hints)
    before = _before(title, found, variables)
    form = _form(title, call, owner, found, variables)
    if has_edit and saved is not _NOTHING:
        form += f"; edit.save({shown(saved, 'target', variables)})"
    elif not has_edit and not before and not form.startswith("with "):
        edited = found.wrong.get("edit")
        opened = shown(edited, "path", variables) if isinstance(edited, str | os.PathLike) else ""
        form = kept(form, opened, shown(saved, "target", variables))
    form = before.replace("{form}", form) or form
    form += next((f"; {note}" for part, note in foreign()["notes"].items() if part in form), "")
    form += f"; it takes {', '.join(taken(call)) or 'nothing'}" if found.unknown else ""
    return in_own_names(f"write {form}", variables)


def _form(title: str, call: Callable[..., Any], owner: type | None, found: _Sorted, variables: Variables) -> str:
    """Return the call with an argument for each parameter that needs one; for a list of values, a call for each."""
    (signature, hints), name = declared(call), title.rpartition(".")[2]
    place = f"{variable_of(owner)}.{name}" if owner else title
    codes, by_name, series = list[str](), name[:1].isupper(), ""
    for one in (signature.parameters[parameter] for parameter in taken(call)):
        hint, values = hints.get(one.name, Any), [found.wrong[one.name]] if one.name in found.wrong else []
        if one.name in found.held:
            code = shown(in_range(one.name, found.held[one.name]), one.name, variables)
        elif values and not by_name and _is_each(values[0], hint):  # ct.cost(model, ["code", "module"])
            series, code = shown(values[0], f"{one.name}s", variables), "one"
        else:
            code = _code(one, hint, name, found, variables)
        if f"{place}(" in code:  # a whole statement
            return code
        if code:
            codes.append(f"{one.name}={code}" if by_name or one.kind is one.KEYWORD_ONLY else code)
        by_name = by_name or not code
    form = re.sub(r"\(0, (\w+)\.index", r"(\1.subgraph, \1.index", f"{place}({', '.join(codes)})")
    form = f"[{form} for one in {series}]" if series else form
    fields = [one for one in dir(_item_of(hints.get("return"))) if one[0] != "_"]
    if len(found.unknown) == 1 and (own := same_name(next(iter(found.unknown)), fields)):  # check(m, level="error")
        form = f"[one for one in {form} if one.{own} == {shown(found.unknown.popitem()[1], own, variables)}]"
    return form


def _code(one: inspect.Parameter, hint: Any, name: str, found: _Sorted, variables: Variables) -> str:
    """Return code for a parameter without an argument that fits; empty if it may be left out."""
    values, place = [found.wrong[one.name]] if one.name in found.wrong else [], f"{name}.{one.name}"
    if values or is_needed(one) or request_of(hint):
        if code := any_meant([*values, *found.loose], found.unknown, hint, place, variables):
            found.loose, found.unknown = [], {} if request_of(hint) else found.unknown
            return code
        if values or is_needed(one):
            code = any_meant(values, {}, hint, place, variables) or placeholder(one, hint, place)
            return repr(one.default) if code == one.name and isinstance(one.default, int | float | str) else code
    return ""


def _place_fields(kind: type, found: _Sorted, hints: Mapping[str, Any]) -> None:
    """Give surplus arguments of a request to fields that they fit, as do lists that stand where a bool belongs."""
    found.held |= placed(kind, found.loose)
    flags = [one for one in found.wrong if hints.get(one) is bool and isinstance(found.wrong[one], list | tuple)]
    if flags:
        found.held |= placed(kind, [found.wrong.pop(one) for one in flags]) | dict.fromkeys(flags, True)


def _before(title: str, found: _Sorted, variables: Variables) -> str:
    """Return code that uses surplus arguments in another call before (or around) `{form}`; empty if there is none."""
    module, kind, code = foreign()["elsewhere"].get(title, ("", "", ""))
    if not module or {*found.unknown} - {*taken(kind := getattr(import_module(module), kind))}:
        return ""
    if title == "ct.split" and not isinstance(found.wrong.get("target", 0), int):  # ct.split(model, ["npu", "cpu"])
        found.loose.append(found.wrong.pop("target"))
    values = [*found.loose, *found.wrong.values()]
    plan = next((one for one in values if type(one).__name__ in ("Plan", "Affinity")), None)
    if plan is None and not (found.loose or found.unknown):
        return ""
    asked = request(kind, [] if plan else found.loose, found.unknown, variables)
    made = shown(plan, variable_of(type(plan)), variables) if plan else f"ct.plan(model, {asked})"
    found.loose, found.unknown = [], {}
    if plan is not None and found.wrong.get("model") is plan:
        del found.wrong["model"]
        found.held["model"] = _NOTHING  # shown by its name
    return str(code).replace("{request}", asked).replace("{plan}", made)


def _sorted_out(call: Callable[..., Any], given: tuple[Any, ...], named: Mapping[str, Any]) -> _Sorted:
    """Find the parameter of each argument: by its place or name, or else the one that it fits."""
    (signature, hints), names = declared(call), taken(call)
    ordered = [name for name in names if signature.parameters[name].kind is not inspect.Parameter.KEYWORD_ONLY]
    needed = [name for name in names if signature.parameters[name].default is inspect.Parameter.empty]
    pairs = [one for one in given if isinstance(one, Mapping) and len(one) == 1 and {"name", "value"} <= {*needed}]
    pairs = pairs if len(given) + len(named) < len(needed) else []
    given = tuple(one for one in given if not any(one is pair for pair in pairs))
    if ordered[:1] == ["subgraph"] and given:
        count, shifted = len(given) + len(named), [*map(fits, (0, *given), [hints.get(one, Any) for one in ordered])]
        if (all(shifted) and count < len(needed)) or count == 1 or not fits(given[0], int):
            given = (0, *given)  # users forget the subgraph, the first argument of many methods
    rest = needed[1 : 1 + len(given)]
    if len(rest) == len(given) > 1 and all(map(fits, given, [hints.get(one, Any) for one in rest])):
        ordered = rest if not fits(given[0], hints.get(needed[0], Any)) else ordered  # ct.difference_html(old, new)
    held, unknown = dict(zip(ordered, given, strict=False)), dict(pairs[0]) if pairs else Named()
    fields = {one for hint in hints.values() if (kind := request_of(hint)) for one in taken(kind)} - {*names}
    for word, value in named.items():
        name = "" if word in fields else same_name(word, names)
        (held if name and name not in held else unknown)[name or word] = value
    missing = [name for name in needed if name not in held]
    if len(unknown) == 1 and {"name", "value"} <= {*missing}:
        ((held["name"], held["value"]),), unknown = unknown.items(), {}
    elif len(unknown) == len(missing) == 1 and not request_of(hint := hints.get(missing[0], Any)):
        ((word, value),) = unknown.items()
        if is_file(value) or fits(value, hint):  # ct.open(model_path="m.tflite")
            held[missing[0]] = unknown.pop(word)
    wrong = {name: held.pop(name) for name in [*held] if not fits(held[name], hints.get(name, Any))}
    asked, loose = {*needed, *named}, list[Any]()
    for own, value in [*wrong.items(), *(("", one) for one in given[len(ordered) :])]:
        free = [one for one in names if one not in held and one != own]
        wanted = {*needed, *wrong}
        home = next((one for one in free if _is_home(one, value, hints, wanted, None if own in asked else own)), "")
        if home:
            held[home] = value
        elif "other" in free and "other" not in wrong and (is_file(value) or type(value).__name__ == "ModelEdit"):
            wrong["other"] = value  # ct.compare(model, "other.tflite")
        else:
            loose += [value] if not own or own in held else []
            continue
        wrong.pop(own, None)
    loose += [wrong.pop(name) for name in [*wrong] if name in held]
    return _Sorted(held, wrong, loose, unknown)


def _is_home(name: str, value: Any, hints: Mapping[str, Any], wanted: set[str], own: str | None) -> bool:
    """Return whether an argument belongs to another parameter; `own` is its own, or None if that is required."""
    hint = hints.get(name, Any)
    if not fits(value, hint) or (hint is bool and not isinstance(value, bool)):
        return False
    is_kept = isinstance(value, bool) if hint is bool else classes_in(type(value)) and classes_in(hint)
    is_number = (
        hint in (int, float) and type(value) is hint and own is not None and not (own and fits([value], hints[own]))
    )
    return bool(is_kept or is_number) or name in wanted


def _item_of(hint: Any) -> Any:
    """Return the class of the items of a list annotation; None for any other annotation."""
    listed = [hint, *getattr(hint, "__orig_bases__", ())]
    return next((get_args(one)[0] for one in listed if get_origin(one) in (list, Sequence)), None)


def _is_each(value: Any, hint: Any) -> bool:
    """Return whether a value is a list of values for a parameter that takes only one."""
    return isinstance(value, list | tuple) and bool(value) and all(fits(one, hint) for one in value)
