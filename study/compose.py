"""Composing one condition's settings: by Hydra once per combination of groups, and plain values put on a copy.

Hydra needs 0.15–0.5 s for a composition, and 50 ms for a value put on a copy of one. A sweep of thousands of conditions
changes values only, so each of those is checked once, by the schema, and then set on plain objects.
"""

from __future__ import annotations

import copy
import difflib
import re
from typing import Any

import yaml
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra.core.config_loader import ConfigLoader
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override, OverrideType, QuotedString, ValueType
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from study.errors import RequestError
from study.schema import GROUPS, Settings

#: What Hydra, OmegaConf and a level's file itself can say against a configuration.
COMPOSITION_ERRORS = (HydraException, OmegaConfBaseException, yaml.YAMLError)
#: What long sweeps are made of. Hydra's parser takes half a millisecond for each line, and finds the same in these.
WHOLE_NUMBER = re.compile(r"([a-z_]+(?:\.[a-z_]+)+)=(0|-?[1-9][0-9]*)")


class Composer:
    """Composes conditions of one sweep. `compose` raises `RequestError` for whatever Hydra or the schema refuses."""

    def __init__(self, loader: ConfigLoader, master: DictConfig) -> None:
        self._loader, self._master = loader, master
        self._parser = OverridesParser.create()
        self._bases: dict[tuple[str, ...], DictConfig] = {}
        self._plain: dict[tuple[str, ...], _Plain | None] = {}
        self._overrides: dict[str, Override] = {}
        self._groups: dict[str, bool] = {}

    def settings(self, lines: list[str]) -> Settings:
        """The checked settings for these overrides, each of one value."""
        try:
            overrides = [self._parsed(line) for line in lines]
            groups = [one.input_line or "" for one in overrides if self._is_group(one)]
            plain = self._plain_base(groups)
            changes = [one for one in overrides if not self._is_group(one)]
            if plain is None or not all(plain.can_set(one) for one in changes):
                return typed(self.compose(lines))
            return plain.changed(changes)
        except COMPOSITION_ERRORS as error:
            raise RequestError(explain(error)) from error

    def compose(self, lines: list[str]) -> DictConfig:
        """The configuration for these overrides, each of one value."""
        try:
            overrides = [self._parsed(line) for line in lines]
            groups = [one for one in overrides if self._is_group(one)]
            config = copy.deepcopy(self._base([one.input_line or "" for one in groups]))
            values = [one for one in overrides if not self._is_group(one)]
            for one in values:
                added = one.is_add() or one.is_force_add()
                # a page of the user's own names its dimensions itself
                if one.is_delete() or (added and not one.key_or_group.startswith("workload.shape.")):
                    raise RequestError(f"{one.input_line}: a study has no such setting{_options(one.key_or_group)}")
            ConfigLoaderImpl._apply_overrides_to_config(values, config)
            return config
        except COMPOSITION_ERRORS as error:
            raise RequestError(explain(error)) from error

    def preset(self, name: str) -> dict[str, Any]:
        """The sweep of the preset conf/experiment/`name`: key → sweep string."""
        try:
            config = self._base([f"+experiment={name}"])
        except COMPOSITION_ERRORS as error:
            raise RequestError(explain(error)) from error
        return dict(config.hydra.sweeper.params or {})

    def _parsed(self, line: str) -> Override:
        if line not in self._overrides:
            number = WHOLE_NUMBER.fullmatch(line)
            if number is not None:
                key, value = number[1], int(number[2])
                self._overrides[line] = Override(OverrideType.CHANGE, key, ValueType.ELEMENT, value, input_line=line)
            else:
                (self._overrides[line],) = self._parser.parse_overrides(overrides=[line])
        return self._overrides[line]

    def _is_group(self, override: Override) -> bool:
        key = override.key_or_group
        if key not in self._groups:
            parent, _, name = key.rpartition("/")
            self._groups[key] = name in self._loader.list_groups(parent)
        return self._groups[key]

    def _plain_base(self, groups: list[str]) -> _Plain | None:
        key = tuple(groups)
        if key not in self._plain:
            self._plain[key] = _Plain.of(self._base(groups))
        return self._plain[key]

    def _base(self, groups: list[str]) -> DictConfig:
        key = tuple(groups)
        if key not in self._bases:
            self._bases[key] = self._loader.load_sweep_config(self._master, groups)
        return self._bases[key]


class _Plain:
    """One combination of groups as plain objects, and the values that the schema has passed for it."""

    def __init__(self, config: DictConfig) -> None:
        self._scratch, self._settings = copy.deepcopy(config), typed(config)
        self._passed: dict[str, Any] = {}
        self._whole_numbers: dict[str, bool] = {}
        self._settable: dict[str, bool] = {}
        self._leaves: dict[str, bool] = {}

    @classmethod
    def of(cls, config: DictConfig) -> _Plain | None:
        """None where values depend on each other: one that refers to another cannot be set on its own."""
        sections = [OmegaConf.to_yaml(config[name]) for name in (*GROUPS, "study")]
        return None if any("${" in text for text in sections) else cls(config)

    def can_set(self, override: Override) -> bool:
        """Whether this is one plain value in place of another; whatever is more is for `Composer.compose`."""
        line = str(override.input_line)
        if line not in self._settable:
            self._settable[line] = self._is_plain(override)
        return self._settable[line]

    def _is_plain(self, override: Override) -> bool:
        value = override.value()
        simple = value is None or isinstance(value, bool | int | float | str | QuotedString)
        if not simple or "${" in str(value) or override.is_add() or override.is_force_add() or override.is_delete():
            return False
        return self._is_leaf(override.key_or_group)

    def _is_leaf(self, key: str) -> bool:
        if key not in self._leaves:
            missing = object()
            found = OmegaConf.select(self._scratch, key, default=missing)
            self._leaves[key] = found is not missing and not OmegaConf.is_config(found)
        return self._leaves[key]

    def changed(self, overrides: list[Override]) -> Settings:
        """The settings with these values."""
        settings = copy.copy(self._settings)
        fresh: set[int] = set()
        for one in overrides:
            _set(settings, one.key_or_group.split("."), self._value(one), fresh)
        return settings

    def _value(self, override: Override) -> Any:
        """The value as the schema converts it. Raises whatever the schema raises.

        A setting that kept one whole number as it is keeps any: the schema knows types, and no ranges.
        """
        line, key, value = str(override.input_line), override.key_or_group, override.value()
        if type(value) is int and self._whole_numbers.get(key):
            return value
        if line not in self._passed:
            ConfigLoaderImpl._apply_overrides_to_config([override], self._scratch)
            passed = self._passed[line] = OmegaConf.select(self._scratch, key)
            self._whole_numbers[key] = type(value) is int and type(passed) is int
        return self._passed[line]


def typed(config: DictConfig) -> Settings:
    """A composed configuration as plain objects."""
    sections = {name: OmegaConf.to_object(config[name]) for name in GROUPS}
    study: Any = OmegaConf.to_object(config.study)
    plain = {name: config[name] for name in ("evidence", "colocation", "colocation_stagger_seconds")}
    return Settings(**sections, study=study, **plain)  # type: ignore[arg-type]


def _set(holder: Any, path: list[str], value: Any, fresh: set[int]) -> None:
    """Set a value below `holder`, copying what leads there once; `fresh` are the copies."""
    name, rest = path[0], path[1:]
    is_dict = isinstance(holder, dict)
    if rest:
        below = holder[name] if is_dict else getattr(holder, name)
        if id(below) not in fresh:
            below = copy.copy(below)
            fresh.add(id(below))
        _set(below, rest, value, fresh)
        value = below
    if is_dict:
        holder[name] = value
    else:
        setattr(holder, name, value)


def quoted(path: str) -> str:
    """A path as a value in Hydra's grammar, whatever characters it holds."""
    escaped = path.replace("\\", "\\\\").replace("'", "\\'").replace("${", "\\${")
    return f"'{escaped}'"


def explain(error: BaseException) -> str:
    """One message of a composition error: what was wrong and, for an unknown setting, the settings that exist there."""
    texts = [str(error)]
    while error.__cause__ is not None:
        error = error.__cause__
        texts.append(str(error))
    text = "\n".join(dict.fromkeys(line for one in texts for line in _tidy(one)))
    unknown = re.search(r"Could not override '\+?([\w.@/]+)'", text)
    return text + (_options(unknown[1]) if unknown else "")


def _tidy(text: str) -> list[str]:
    noise = ("full_key:", "object_type=", "reference_type=", "To append to your config use", "Could not append")
    return [line.rstrip() for line in text.splitlines() if line.strip() and not line.strip().startswith(noise)]


def _options(key: str) -> str:
    """The settings beside an unknown one, the closest first."""
    parent, _, name = key.rpartition(".")
    schema = OmegaConf.structured(Settings)
    node = OmegaConf.select(schema, parent) if parent else schema
    prefix = f"{parent}." if parent else ""
    names = sorted(str(one) for one in node) if isinstance(node, DictConfig) else []
    close = difflib.get_close_matches(name, names, n=1)
    hint = f"\nDid you mean {prefix}{close[0]}?" if close else ""
    if not names:
        return f"\n`python -m study --cfg job` prints the settings under {parent}"
    return f"{hint}\nSettings here: {', '.join(prefix + one for one in names)}"
