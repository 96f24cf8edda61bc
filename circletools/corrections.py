"""Write a wrong call as it was probably meant: keep arguments that fit, and suggest code for the others."""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, get_args, get_origin

import numpy as np

from circletools.arguments import classes_in, declared, fits, in_range, taken
from circletools.rules import MODEL, is_file, meant, placement, shown_fields
from circletools.snippets import foreign, importing, kept, maker_of, placeholder, same_name, shown, variable_of

_Named = dict[str, Any]
_NOTHING = object()


@dataclass
class _Sorted:
    """The arguments of a call: those that fit, those that do not, surplus ones, and unknown keywords."""

    held: _Named
    wrong: _Named
    loose: list[Any]
    unknown: _Named


def corrected(
    title: str, call: Callable[..., Any], given: tuple[Any, ...], named: Mapping[str, Any], owner: type | None
) -> str:
    """Return what to write instead of a wrong call; for a method, `owner` is its class."""
    if owner is not None and (not given or title.endswith(f".{owner.__name__}")):
        return f"write {maker_of(owner)}" if given else f"{maker_of(owner)} makes one"
    (signature, hints), saved, name = declared(call), _NOTHING, title.rpartition(".")[2]
    removing = name.replace("set_", "remove_")
    if any(one is None for one in given) and hasattr(owner, removing):  # edit.set_metadata("a", None)
        given = tuple(one for one in given if one is not None)
        return corrected(title.replace(name, removing), getattr(owner, removing), given, named, owner)
    has_edit = any(type(one).__name__ == "ModelEdit" for one in (*given, *named.values()))
    if "edit" in hints and (not has_edit or len(given) > len(taken(call))):  # fix("in", "out.tflite")
        saved = next((one for one in (*given[1:], *named.values()) if is_file(one, MODEL)), _NOTHING)
    given, named = tuple(one for one in given if one is not saved), {k: v for k, v in named.items() if v is not saved}
    found = _sorted_out(call, given["self" in signature.parameters :], named)
    if title.endswith("Request"):  # give surplus arguments, and lists in place of a bool, to fields that they fit
        flags = [one for one in found.wrong if hints.get(one) is bool and isinstance(found.wrong[one], list | tuple)]
        found.held |= _placed(type(given[0]), found.loose)
        found.held |= _placed(type(given[0]), [found.wrong.pop(one) for one in flags]) if flags else {}
        found.held |= dict.fromkeys(flags, True)
    before, form = _before(title, found), _form(title, call, owner, found)
    if has_edit and saved is not _NOTHING:
        form += f"; edit.save({shown(saved, 'target')})"
    elif not has_edit and not before and not form.startswith("with "):
        edited = found.wrong.get("edit")
        opened = shown(edited, "path") if isinstance(edited, str | os.PathLike) else ""
        form = kept(form, opened, shown(saved, "target"))
    form = before.replace("{form}", form) or form
    form += next((f"; {note}" for part, note in foreign()["notes"].items() if part in form), "")
    form += f"; it takes {', '.join(taken(call)) or 'nothing'}" if found.unknown else ""
    return importing(f"write {form}")


def _form(title: str, call: Callable[..., Any], owner: type | None, found: _Sorted) -> str:
    """Return the call with an argument for each parameter that needs one; for a list of values, a call for each."""
    (signature, hints), name = declared(call), title.rpartition(".")[2]
    place = f"{variable_of(owner)}.{name}" if owner else title
    codes, by_name, series = list[str](), name[:1].isupper(), ""
    for one in (signature.parameters[parameter] for parameter in taken(call)):
        hint, wrong = hints.get(one.name, Any), [found.wrong[one.name]] if one.name in found.wrong else []
        if one.name in found.held:
            code = shown(in_range(one.name, found.held[one.name]), one.name)
        elif wrong and not by_name and _is_each(wrong[0], hint):  # ct.cost(model, ["code", "module"])
            series, code = shown(wrong[0], f"{one.name}s"), "one"
        else:
            code = _code(one, hint, f"{name}.{one.name}", wrong, found)
        if f"{place}(" in code:  # a whole statement
            return code
        if code:
            codes.append(f"{one.name}={code}" if by_name or one.kind is one.KEYWORD_ONLY else code)
        by_name = by_name or not code
    form = re.sub(r"\(0, (\w+)\.index", r"(\1.subgraph, \1.index", f"{place}({', '.join(codes)})")
    form = f"[{form} for one in {series}]" if series else form
    returned = [hints.get("return"), *getattr(hints.get("return"), "__orig_bases__", ())]
    items = next((get_args(one)[0] for one in returned if get_origin(one) in (list, Sequence)), None)
    fields = [one for one in dir(items) if one[0] != "_"]
    if len(found.unknown) == 1 and (own := same_name(next(iter(found.unknown)), fields)):  # check(m, level="error")
        form = f"[one for one in {form} if one.{own} == {shown(found.unknown.popitem()[1], own)}]"
    return form


def _code(one: inspect.Parameter, hint: Any, place: str, wrong: list[Any], found: _Sorted) -> str:
    """Return code for a parameter without an argument that fits; empty if it may be left out."""
    code = placeholder(one, hint, place)
    if not (wrong or code or _request_of(hint)):
        return ""
    if likely := _meant([*wrong, *found.loose], found.unknown, hint, place):
        found.loose, found.unknown = [], {} if _request_of(hint) else found.unknown
        return likely
    default = repr(one.default) if isinstance(one.default, int | float | str) else one.name
    return _meant(wrong, {}, hint, place) or code or default * bool(wrong)


def _before(title: str, found: _Sorted) -> str:
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
    asked = _request(kind, [] if plan else found.loose, found.unknown)
    made = variable_of(type(plan)) if plan else f"ct.plan(model, {asked})"
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
    held, unknown = dict(zip(ordered, given, strict=False)), dict(pairs[0]) if pairs else _Named()
    fields = {one for hint in hints.values() if (kind := _request_of(hint)) for one in taken(kind)} - {*names}
    for word, value in named.items():
        name = "" if word in fields else same_name(word, names)
        (held if name and name not in held else unknown)[name or word] = value
    missing = [name for name in needed if name not in held]
    if len(unknown) == 1 and {"name", "value"} <= {*missing}:
        ((held["name"], held["value"]),), unknown = unknown.items(), {}
    elif len(unknown) == len(missing) == 1 and not _request_of(hint := hints.get(missing[0], Any)):
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
    is_number = hint in (int, float) and type(value) is hint and own is not None
    is_kept = hint is bool or (classes_in(type(value)) and classes_in(hint))
    return bool(is_kept or name in wanted or (is_number and not (own and fits([value], hints[own]))))


def _is_each(value: Any, hint: Any) -> bool:
    """Return whether a value is a list of values for a parameter that takes only one."""
    return isinstance(value, list | tuple) and bool(value) and all(fits(one, hint) for one in value)


def _request_of(hint: Any) -> type | None:
    """Return the class in an annotation whose objects are made of plain values only; None if there is none."""
    endings = ("Request", "Description", "Selection")
    return next((one for one in classes_in(hint) if one.__name__.endswith(endings)), None)


def _meant(values: list[Any], unknown: _Named, hint: Any, place: str) -> str:
    """Return code for the argument that misplaced values and unknown keywords stand for; empty if unknown."""
    if (kind := _request_of(hint)) and (values or unknown):
        return _request(kind, values, unknown)
    if len(values) > 1:
        return _paired(values, hint) or shown(tuple(values), "") * fits(tuple(values), hint)
    return meant(values[0], hint, place) if values else ""


def _paired(values: list[Any], hint: Any) -> str:
    """Return code for a list with one pair of values; empty if this does not fit."""
    pairs = ([tuple(values)], [(str(values[0]), *values[1:])]) if len(values) > 1 else ()
    return next((shown(one, "") for one in pairs if fits(one, hint)), "")


def _request(kind: type, values: list[Any], unknown: _Named) -> str:
    """Return code for a request with these unnamed values and named fields, or for any request if none fits."""
    made, hints, found = maker_of(kind), declared(kind)[1], dict[str, str]()
    if len(values) == 1 and isinstance(values[0], Mapping) and {*values[0]} <= {*taken(kind)}:
        values, unknown = [], dict(values[0])
    elif kind.__name__ == "PlanRequest" and len(values) == 1 and (fields := placement(values[0])):
        values, unknown = [], fields | unknown
    for word, value in unknown.items():
        if name := same_name(word, taken(kind)):
            found[name] = meant(value, hints[name], f"{kind.__name__}.{name}")
    if any(isinstance(one, np.ndarray) for one in values):
        found["inputs"] = foreign()["given"].get(f"{kind.__name__}.inputs", "")
    values = values * all(shown(one, "") for one in values)
    for name in taken(kind):
        if pair := _paired(values, hints[name]):
            found[name], values = pair, []
    if len(values) > 1 and len(fields := _placed(kind, values)) == len(values):
        found, values = {name: repr(value) for name, value in fields.items()} | found, []
    for name in sorted(taken(kind), key=lambda one: f"{one}=" not in made):
        if values and name not in found and (code := _meant(values, {}, hints[name], f"{kind.__name__}.{name}")):
            found[name], values = code, []
    return f"{made.partition('(')[0]}({given})" if (given := shown_fields(found)) else made


def _placed(kind: type, values: list[Any]) -> _Named:
    """Assign each value to the next field of a class that it fits; path fields and inherited fields come last."""
    hints, forms = declared(kind)[1], foreign()["forms"]
    ordered = sorted(taken(kind), key=lambda one: (one not in kind.__annotations__, "Path" in str(hints[one])))
    if len(values) == 1 and fits([*values], hints[ordered[0]]):
        return {ordered[0]: [*values]}
    fields, found, is_wrapped = iter(ordered), _Named(), bool({*forms} & {*ordered})
    for value in values:
        for own in fields:
            made = next((one for one in (value, [value])[: 1 + is_wrapped] if fits(one, hints[own])), None)
            if made is not None and re.fullmatch(forms.get(own, ".*"), str(made), re.DOTALL):
                found[own] = made
                break
    return found
