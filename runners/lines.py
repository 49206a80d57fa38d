"""One line, both ways: a message or record as one JSON object on one line, ended by its checksum.

Everything that travels between the processes of a study or is stored in its journals has this form. Only the standard
library is imported.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import math
import types
import typing
from enum import StrEnum
from typing import Any

from runners.records import Plan, SessionRecord, TrialRecord, TrialReport
from runners.specs import SCHEMA_VERSION, TrialSpec


class RecordError(ValueError):
    """A line that is no record: torn, altered, or of another schema version. The text says which."""


def encode_line(message: Any) -> str:
    """One JSON line with its checksum, newline included. `message` is a dataclass of this file or a plain dict.

    Non-finite floats become the strings "nan", "inf", "-inf", which JSON can carry and `float` reads back.
    """
    body = _plain(message)
    body.pop("checksum", None)
    text = _dump(body)
    return f'{text[:-1]}{"," if body else ""}"checksum":"{_digest(text)}"}}\n'


def decode_line(line: str) -> dict[str, Any]:
    """The object of one line, checksum verified and removed.

    Raises:
        RecordError: the line is not a JSON object, or its checksum is missing or wrong.
    """
    try:
        body = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise RecordError(f"not a JSON line ({error})") from None
    if not isinstance(body, dict):
        raise RecordError(f"a JSON {type(body).__name__}, not an object")
    found = body.pop("checksum", None)
    if found is None:
        raise RecordError("no checksum: the line was cut or not written by a study")
    if found != _checksum_as_written(line, found) and found != _checksum(body):
        raise RecordError(f"checksum {found} does not fit the line: it was altered or damaged")
    return body


def trial_from_dict(body: dict[str, Any]) -> TrialRecord:
    """A `TrialRecord` from `decode_line`'s object. Raises `RecordError` for another kind or schema version."""
    _expect(body, "trial", body.get("spec", {}).get("schema_version") if isinstance(body.get("spec"), dict) else None)
    return _build(TrialRecord, body)


def session_from_dict(body: dict[str, Any]) -> SessionRecord:
    """A `SessionRecord` from `decode_line`'s object. Raises `RecordError` for another kind or schema version."""
    _expect(body, "session", body.get("schema_version"))
    return _build(SessionRecord, body)


def spec_from_dict(body: dict[str, Any]) -> TrialSpec:
    """A `TrialSpec` from its plain form. Raises `RecordError` where a field is missing or unknown."""
    return _build(TrialSpec, body)


def report_from_dict(body: dict[str, Any]) -> TrialReport:
    """A `TrialReport` from its plain form. Raises `RecordError` where a field is unknown."""
    return _build(TrialReport, body)


def plan_from_dict(body: dict[str, Any]) -> Plan:
    """A `Plan` from its plain form. Raises `RecordError` where a field is unknown."""
    return _build(Plan, body)


def _expect(body: dict[str, Any], kind: str, version: Any) -> None:
    if body.get("kind") != kind:
        raise RecordError(f"a line of kind {body.get('kind')!r}, not {kind!r}")
    if version != SCHEMA_VERSION:
        raise RecordError(f"schema version {version!r}; this program reads version {SCHEMA_VERSION}")


def _checksum(body: dict[str, Any]) -> str:
    return _digest(_dump(body))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _checksum_as_written(line: str, found: Any) -> str:
    """The checksum of the line as it stands, which spares writing it again: `encode_line` puts the checksum last."""
    text = line.strip()
    tail = f',"checksum":"{found}"}}'
    return _digest(text[: -len(tail)] + "}") if text.endswith(tail) else ""


def _dump(body: dict[str, Any]) -> str:
    text = json.dumps(body, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    # a text that came from bytes in another encoding may hold half of a pair, which no file takes
    return text.encode(errors="replace").decode()


def _plain(value: Any) -> Any:
    """Only what JSON has: dataclasses become objects, tuples lists, enum members their values, inf and nan strings."""
    if type(value) in (str, int, bool, type(None)):
        return value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {one.name: _plain(getattr(value, one.name)) for one in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, StrEnum):
        return value.value
    return value


def _build(target: Any, value: Any) -> Any:
    """`value` as the annotated type `target` asks for it; the mirror of `_plain`."""
    if dataclasses.is_dataclass(target):
        return _build_dataclass(target, value)
    origin, arguments = typing.get_origin(target), typing.get_args(target)
    if origin in (types.UnionType, typing.Union):
        return _build_union(arguments, value)
    if origin is list:
        return [_build(arguments[0], item) for item in value]
    if origin is tuple:
        return tuple(_build(arguments[0], item) for item in value)
    if origin is dict:
        return {key: _build(arguments[1], item) for key, item in value.items()}
    if target is float:
        return float(value)
    if isinstance(target, type) and issubclass(target, StrEnum):
        return target(value)
    return value


def _build_dataclass(target: Any, value: Any) -> Any:
    if not isinstance(value, dict):
        raise RecordError(f"{target.__name__} needs an object, found {value!r}")
    hints = _hints(target)
    unknown = sorted(set(value) - set(hints))
    if unknown:
        raise RecordError(f"{target.__name__} has no field {', '.join(unknown)}")
    try:
        return target(**{key: _build(hints[key], item) for key, item in value.items()})
    except (TypeError, ValueError) as error:
        raise RecordError(f"{target.__name__}: {error}") from None


@functools.cache
def _hints(target: Any) -> dict[str, Any]:
    return typing.get_type_hints(target)


def _build_union(arguments: tuple[Any, ...], value: Any) -> Any:
    kinds = [argument for argument in arguments if argument is not type(None)]
    if value is None or len(kinds) != 1:
        return value
    return _build(kinds[0], value)
