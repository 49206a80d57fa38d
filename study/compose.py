"""Composing one condition's configuration: by Hydra once per combination of groups, and plain values put on a copy.

Hydra needs 0.15–0.5 s for a composition; a sweep over batch sizes or seeds changes values only.
"""

from __future__ import annotations

import copy
import difflib
import re
from typing import Any

from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra.core.config_loader import ConfigLoader
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from study.errors import RequestError
from study.schema import Settings


class Composer:
    """Composes conditions of one sweep. `compose` raises `RequestError` for whatever Hydra or the schema refuses."""

    def __init__(self, loader: ConfigLoader, master: DictConfig) -> None:
        self._loader, self._master = loader, master
        self._parser = OverridesParser.create()
        self._bases: dict[tuple[str, ...], DictConfig] = {}

    def compose(self, lines: list[str]) -> DictConfig:
        """The configuration for these overrides, each of one value."""
        try:
            overrides = self._parser.parse_overrides(overrides=lines)
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
        except (HydraException, OmegaConfBaseException) as error:
            raise RequestError(explain(error)) from error

    def preset(self, name: str) -> dict[str, Any]:
        """The sweep of the preset conf/experiment/`name`: key → sweep string."""
        try:
            config = self._base([f"+experiment={name}"])
        except (HydraException, OmegaConfBaseException) as error:
            raise RequestError(explain(error)) from error
        return dict(config.hydra.sweeper.params or {})

    def _is_group(self, override: Override) -> bool:
        return (
            self._loader.list_groups(override.key_or_group.rpartition("/")[0]).count(
                override.key_or_group.rpartition("/")[2]
            )
            > 0
        )

    def _base(self, groups: list[str]) -> DictConfig:
        key = tuple(groups)
        if key not in self._bases:
            self._bases[key] = self._loader.load_sweep_config(self._master, groups)
        return self._bases[key]


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
