"""A journal's session line → `SessionRecord`, refused where design or provenance have another shape than is relied on.

The schema leaves both open, as they grow with what can be asked and read of a machine.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from runners.lines import RecordError, session_from_dict
from runners.records import SessionRecord


def read_session(body: dict[str, Any]) -> SessionRecord:
    """The session of `decode_line`'s object.

    Raises:
        RecordError: a field that is missing, unknown or of the wrong type.
    """
    for name in ("session_id", "study", "started_utc", "provenance_hash"):
        _expect(isinstance(body.get(name), str), name, "a text", body.get(name))
    provenance: Any = body.get("provenance")
    design: Any = body.get("design")
    _expect(isinstance(provenance, dict), "provenance", "an object", provenance)
    _expect(isinstance(provenance.get("versions", {}), dict), "provenance.versions", "an object", provenance)
    _expect(isinstance(design, dict), "design", "an object", design)
    for name, (fits, said) in _DESIGN.items():
        _expect(design.get(name) is None or fits(design[name]), f"design.{name}", said, design.get(name))
    return session_from_dict(body)


def _expect(held: bool, name: str, said: str, value: Any) -> None:
    if not held:
        raise RecordError(f"a session whose {name} is not {said}: {value!r:.80}")


def _is_condition(entry: Any) -> bool:
    """With its settings, or as its id alone."""
    if isinstance(entry, str):
        return True
    return isinstance(entry, dict) and "condition_id" in entry and isinstance(entry.get("settings") or {}, dict)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**31


#: Part of a design → whether a value can be it, and what it must be in words.
_DESIGN: dict[str, tuple[Callable[[Any], bool], str]] = {
    "factors": (
        lambda value: isinstance(value, dict) and all(isinstance(levels, list) for levels in value.values()),
        "an object of lists",
    ),
    "primary": (
        lambda value: (
            isinstance(value, str) or (isinstance(value, list) and all(isinstance(name, str) for name in value))
        ),
        "a text or a list of texts",
    ),
    "blocks": (_is_count, "a number of blocks"),
    "conditions": (lambda value: isinstance(value, list) and all(map(_is_condition, value)), "a list of conditions"),
}
