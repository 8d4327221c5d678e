"""Strict JSON into frozen dataclasses: unknown, missing and mistyped fields are named, never ignored."""

from __future__ import annotations

import dataclasses
import enum
import functools
import types
import typing
from typing import Any, TypeVar

T = TypeVar("T")
PLAIN = (int, float, str, bool)  # what _value takes as it is


class WireError(ValueError):
    """A message does not have the shape that the protocol gives it."""


def from_json(cls: type[T], data: Any, where: str = "$") -> T:
    """Build dataclass `cls` from decoded JSON `data`; raises WireError naming the field's path."""
    if not isinstance(data, dict):
        raise WireError(f"{where}: expected an object for {cls.__name__}, got {type(data).__name__}")
    hints, fields = _shape(typing.cast(type, cls))
    if unknown := sorted(set(data) - set(fields)):
        raise WireError(f"{where}: unknown field {unknown[0]!r} for {cls.__name__}")
    values = {}
    for name, field in fields.items():
        if name in data:
            values[name] = _value(hints[name], data[name], f"{where}.{name}")
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            raise WireError(f"{where}: missing field {name!r} for {cls.__name__}")
    return cls(**values)


@functools.cache
def _shape(cls: type) -> tuple[dict[str, Any], dict[str, dataclasses.Field[Any]]]:
    """Types and fields by name; traces have thousands of lines of one class."""
    return typing.get_type_hints(cls), {field.name: field for field in dataclasses.fields(cls)}


def to_json(value: Any) -> dict[str, Any]:
    """Encode a dataclass as JSON-ready dicts, lists and scalars."""
    return dataclasses.asdict(value)


def _value(hint: Any, data: Any, where: str) -> Any:
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any:
        return data
    if origin in (types.UnionType, typing.Union):
        return None if data is None else _value(next(a for a in args if a is not type(None)), data, where)
    if origin is tuple:
        return _tuple(args, data, where)
    if origin is dict:
        _expect(dict, data, where)
        return {str(k): _value(args[1], v, f"{where}.{k}") for k, v in data.items()}
    if dataclasses.is_dataclass(hint):
        return from_json(typing.cast(type, hint), data, where)
    if hint is float and type(data) is int:
        return float(data)
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return _member(hint, data, where)
    _expect(hint, data, where)
    return data


def _member(kind: type[enum.Enum], data: Any, where: str) -> enum.Enum:
    try:
        return kind(data)
    except ValueError:
        raise WireError(f"{where}: {str(data)[:60]!r} is no {kind.__name__}") from None


def _tuple(args: tuple[Any, ...], data: Any, where: str) -> tuple[Any, ...]:
    _expect(list, data, where, also=tuple)
    if len(args) == 2 and args[1] is Ellipsis:
        if args[0] in PLAIN and all(type(v) is args[0] for v in data):  # token ids and margins: by the thousand
            return tuple(data)
        return tuple(_value(args[0], v, f"{where}[{i}]") for i, v in enumerate(data))
    if len(args) != len(data):
        raise WireError(f"{where}: expected {len(args)} items, got {len(data)}")
    return tuple(_value(a, v, f"{where}[{i}]") for i, (a, v) in enumerate(zip(args, data, strict=True)))


def _expect(kind: type, data: Any, where: str, also: type | None = None) -> None:
    if type(data) is not kind and type(data) is not also:
        raise WireError(f"{where}: expected {kind.__name__}, got {type(data).__name__} {str(data)[:60]!r}")
