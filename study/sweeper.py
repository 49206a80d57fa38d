"""The Hydra sweeper of a study: expands the sweep, composes and checks every condition once, then runs the design.

It works over any Hydra launcher: the launcher gets one job, which names a file that holds the checked design. So Hydra
composes once per condition, never once per replicate.
"""

from __future__ import annotations

import importlib
import itertools
import math
import pickle
import sys
import tempfile
import types
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hydra.core.config_store import ConfigStore
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.core.plugins import Plugins
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig

# Hydra looks for plug-ins in the package hydra_plugins while its registry is first built; building it before the
# import below keeps BasicSweeper from being taken for one of ours.
Plugins.instance()

from hydra.plugins.sweeper import Sweeper  # noqa: E402

from study import compose, search  # noqa: E402
from study.config import Condition, StudyOptions, condition_from, options_from  # noqa: E402
from study.design import Design, plan  # noqa: E402
from study.errors import RequestError  # noqa: E402
from study.request import REQUEST  # noqa: E402

#: Settings of the study as a whole: they take one value, never a sweep.
UNSWEPT = "study."
#: What makes a level that level; changed by hand, a row would be labelled with something that was not done.
OF_THE_LEVEL = (
    "framework.name", "device.kind", "allocation.name", "allocation.frameworks", "workload.name", "workload.sizes",
    "protocol.name", "chip.name",
)  # fmt: skip
#: More conditions than this are a slip of the pen; each costs a composition before the first trial.
MOST_CONDITIONS = 20_000


class StudySweeper(Sweeper):
    """`params` may come from a preset: further overrides, key → sweep string, that the command line outranks."""

    def __init__(self, params: dict[str, Any] | None = None) -> None:
        self.params = dict(params or {})

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        """Called by Hydra with the configuration of the whole sweep."""
        self.config, self.context = config, hydra_context
        self.launcher = Plugins.instance().instantiate_launcher(
            hydra_context=hydra_context, task_function=task_function, config=config
        )

    def sweep(self, arguments: list[str]) -> None:
        """Run the study that these overrides describe. Every fault of the request ends up in `REQUEST.error`."""
        with REQUEST.guarded():
            overrides = self._overrides(arguments)
            _refuse_ignored(overrides)
            composer = compose.Composer(self.context.config_loader, self.config)
            conditions, options = _conditions(overrides, composer)
            search.require_bounded(conditions, options.search)
            design = _design(conditions, options, overrides)
            REQUEST.accept(design, options)
            if not options.dry_run:
                REQUEST.exit_status = max(self._launch(design, options))

    def _overrides(self, arguments: Sequence[str]) -> list[Override]:
        parser = OverridesParser.create(config_loader=self.context.config_loader)
        given = parser.parse_overrides(overrides=list(arguments))
        keys = {override.key_or_group for override in given}
        preset = [f"{key}={value}" for key, value in self.params.items()]
        return [one for one in parser.parse_overrides(overrides=preset) if one.key_or_group not in keys] + given

    def _launch(self, design: Design, options: StudyOptions) -> list[int]:
        with tempfile.TemporaryDirectory(prefix="study-batch-") as folder:
            batch = Path(folder) / "batch.pickle"
            batch.write_bytes(pickle.dumps((design, options)))
            returned = self.launcher.launch([[f"study.batch={_quoted(str(batch))}"]], initial_job_idx=0)
            return [job.return_value for job in returned]


def _quoted(path: str) -> str:
    """A path as a value in Hydra's grammar, whatever characters it holds."""
    escaped = path.replace("\\", "\\\\").replace("'", "\\'").replace("${", "\\${")
    return f"'{escaped}'"


def _refuse_ignored(overrides: Sequence[Override]) -> None:
    """Refuse what Hydra would take and then ignore."""
    presets = [one for one in overrides if one.key_or_group == "experiment"]
    if len(presets) > 1 or any(one.is_sweep_override() for one in presets):
        raise RequestError(
            "experiment takes one preset at a time (of several, Hydra would silently drop the sweeps); "
            "run them one after another, each as +experiment=NAME"
        )
    seen: set[str] = set()
    for one in overrides:
        # settings of groups have a dot: a list without one names several levels, of which the last would win
        if isinstance(one.value(), list) and "." not in one.key_or_group:
            raise RequestError(f"{one.input_line}: levels of a sweep are separated by commas, without brackets")
        if one.key_or_group in seen:
            raise RequestError(f"{one.key_or_group} is given twice; give it once, several levels separated by commas")
        seen.add(one.key_or_group)
        if one.key_or_group.startswith(OF_THE_LEVEL):
            group = one.key_or_group.partition(".")[0]
            raise RequestError(f"{one.input_line}: the level's file says that; choose a level, as in {group}=LEVEL")
        if one.key_or_group.startswith(UNSWEPT) and one.is_sweep_override():
            raise RequestError(f"{one.input_line}: settings under study. belong to the whole study and take one value")


def _conditions(overrides: Sequence[Override], composer: compose.Composer) -> tuple[list[Condition], StudyOptions]:
    lists = [_levels(override) for override in overrides]
    count = math.prod(map(len, lists))
    if count > MOST_CONDITIONS:
        raise RequestError(f"the sweep has {count} conditions; at most {MOST_CONDITIONS} are composed in one study")
    conditions, options = [], None
    for combination in itertools.product(*lists):
        config = composer.compose(list(combination))
        conditions.append(condition_from(config))
        options = options or options_from(config)
    assert options is not None, "a product over lists that are never empty"
    return conditions, options


def _levels(override: Override) -> list[str]:
    if not override.is_sweep_override():
        return [override.input_line or ""]
    levels = list(override.sweep_string_iterator())
    if not levels:
        raise RequestError(f"{override.input_line} names no level")
    return [f"{override.get_key_element()}={level}" for level in levels]


def _design(conditions: list[Condition], options: StudyOptions, overrides: Sequence[Override]) -> Design:
    swept = [override.key_or_group for override in overrides if override.is_sweep_override()]
    single = not REQUEST.multirun and len(conditions) == 1
    return plan(
        conditions,
        swept=swept,
        primary=options.primary,
        seed=options.seed,
        blocks=1 if (single or options.search is not None) and options.blocks is None else options.blocks,
        command=REQUEST.command,
    )


def register() -> None:
    """Make the sweeper known to Hydra as hydra/sweeper=study.

    Hydra 1.3 only accepts classes of the package hydra_plugins, so this module answers to such a name as well.
    """
    alias = "hydra_plugins.study"
    StudySweeper.__module__ = alias
    try:
        parent = importlib.import_module("hydra_plugins")
    except ModuleNotFoundError:
        # the package exists only where some plug-in is installed
        parent = sys.modules["hydra_plugins"] = types.ModuleType("hydra_plugins")
        parent.__path__ = []
    sys.modules[alias] = parent.study = sys.modules[__name__]  # type: ignore[attr-defined]
    Plugins.instance().register(StudySweeper)
    node = {"_target_": f"{alias}.StudySweeper", "params": None}
    ConfigStore.instance().store(group="hydra/sweeper", name="study", node=node, provider="study")
