"""What conditions are called: short names that hold only the settings in which they differ."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

#: (framework, compile) → the level's name in a request.
FRAMEWORK_NAMES = {
    ("jax", "jit"): "jax",
    ("tf", "xla"): "tf",
    ("tf", "graph"): "tf_graph",
    ("tf_graph", "graph"): "tf_graph",
}

#: Settings whose level speaks for itself; every other one is named before its level.
SELF_EXPLAINING = (
    "framework",
    "device",
    "chip",
    "allocation",
    "workload",
    "workload.dtype",
    "workload.size",
    "evidence",
    "colocation",
)

SEPARATOR = " · "


def framework_label(framework: str | None, compile: str | None) -> str:
    """`jax`, `tf` or `tf_graph`; another pair is written out as framework/compile."""
    return FRAMEWORK_NAMES.get((framework or "", compile or ""), f"{framework}/{compile}")


def level_text(setting: str, level: Any) -> str:
    """A level as it is read: the null level is called unset, so that it differs from a level named None or null."""
    text = "unset" if level is None else str(level).lower() if isinstance(level, bool) else str(level)
    if setting in SELF_EXPLAINING:
        return text if level is not None else f"{setting} unset"
    return f"{setting.rpartition('.')[2]} {text}"


def condition_labels(conditions: Mapping[str, Mapping[str, Any]], shown: list[str]) -> dict[str, str]:
    """Condition id → label. `shown` are the settings that differ; the framework always leads.

    Labels are unique: conditions that share theirs get the start of their id behind it.
    """
    labels = {condition: _label(settings, shown) for condition, settings in conditions.items()}
    counts: dict[str, int] = {}
    for label in labels.values():
        counts[label] = counts.get(label, 0) + 1
    return {c: label if counts[label] == 1 else f"{label}{SEPARATOR}{c[:8]}" for c, label in labels.items()}


def cell_label(settings: Mapping[str, Any], shown: list[str], primary: tuple[str, ...]) -> str:
    """The label of all settings but the primary factor's; empty when no other setting differs."""
    framework = [] if "framework" in primary or not _framework_differs(shown) else [_framework(settings)]
    if framework and "compile" in primary:
        framework = [str(settings.get("framework"))]
    return SEPARATOR.join([*framework, *_parts(settings, [key for key in shown if key not in primary])])


def level_label(settings: Mapping[str, Any], primary: tuple[str, ...]) -> str:
    """The primary factor's level: the framework by its name, any other by its settings."""
    framework = [_framework(settings)] if "framework" in primary else []
    rest = [key for key in primary if key not in ("framework", "compile") and settings.get(key) is not None]
    return SEPARATOR.join([*framework, *_parts(settings, rest)]) or level_text(primary[0], settings.get(primary[0]))


def _label(settings: Mapping[str, Any], shown: list[str]) -> str:
    return SEPARATOR.join([_framework(settings), *_parts(settings, shown)])


def _parts(settings: Mapping[str, Any], keys: list[str]) -> list[str]:
    """Texts of the given settings; a refinement that is unset here (allocation.limit_bytes) is not worth a word."""
    named = [key for key in keys if key not in ("framework", "compile") and not key.startswith("framework.")]
    return [level_text(key, settings.get(key)) for key in named if _worth_a_word(key, settings)]


def _worth_a_word(key: str, settings: Mapping[str, Any]) -> bool:
    return settings.get(key) is not None or "." not in key


def _framework(settings: Mapping[str, Any]) -> str:
    return framework_label(settings.get("framework"), settings.get("compile"))


def _framework_differs(shown: list[str]) -> bool:
    return any(key in ("framework", "compile") for key in shown)
