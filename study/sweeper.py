"""The Hydra sweeper of a study: expands the sweep, composes and checks every condition once, then runs the design.

It works over any Hydra launcher. One in this process gets one job, which names the study by its number; any other gets
a job for each batch, which names the batch's file. So Hydra composes once per condition, never once per replicate.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import itertools
import math
import sys
import time
import types
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from hydra.core.config_store import ConfigStore
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.core.plugins import Plugins
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig
from rich.console import Console

# Hydra looks for plug-ins in the package hydra_plugins while its registry is first built; building it before the
# import below keeps BasicSweeper from being taken for one of ours.
Plugins.instance()

from hydra.plugins.sweeper import Sweeper  # noqa: E402

from study import (  # noqa: E402
    batches,
    colocation,
    compose,
    devices,
    dispatch,
    launchers,
    needs,
    search,
    themes,
)
from study.config import Condition, StudyOptions, condition_from, options_from  # noqa: E402
from study.design import Design, plan  # noqa: E402
from study.errors import RequestError  # noqa: E402
from study.request import REQUEST  # noqa: E402
from study.schema import Settings  # noqa: E402

#: Settings of the study as a whole: they take one value, never a sweep.
UNSWEPT = "study."
#: What makes a level that level; changed by hand, a row would be labelled with something that was not done.
OF_THE_LEVEL = (
    "framework.name", "device.kind", "allocation.name", "allocation.frameworks", "workload.name", "workload.sizes",
    "protocol.name", "chip.name",
)  # fmt: skip
#: More conditions than this are a slip of the pen; each costs a composition before the first trial.
MOST_CONDITIONS = 20_000

Study = tuple[Design, StudyOptions]


class StudySweeper(Sweeper):
    """What a preset may say: `params`, further overrides (key → sweep string) that the command line outranks; or
    `themes`, other presets, each of which becomes a study of its own under one name.
    """

    def __init__(self, params: dict[str, Any] | None = None, themes: list[str] | None = None) -> None:
        self.params, self.themes = dict(params or {}), list(themes or [])

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        """Called by Hydra with the configuration of the whole sweep."""
        self.config, self.context, self.task_function = config, hydra_context, task_function
        devices.PLACE.elsewhere = not launchers.is_in_process(config)

    def sweep(self, arguments: list[str]) -> None:
        """Run the study that these overrides describe. Every fault of the request ends up in `REQUEST.error`."""
        with REQUEST.guarded():
            with _collector_at_rest():
                composer = compose.Composer(self.context.config_loader, self.config)
                if self.themes:
                    REQUEST.accept(self._themes(arguments, composer))
                else:
                    REQUEST.accept([self._study(arguments, self.params, composer)])
            if not REQUEST.studies[0][1].dry_run:
                REQUEST.exit_status = self._run_all()
            elif devices.PLACE.elsewhere:
                REQUEST.jobs = [self._jobs(design, options) for design, options in REQUEST.studies]

    def _study(self, arguments: Sequence[str], params: dict[str, Any], composer: compose.Composer) -> Study:
        """The design that these overrides and a preset's `params` ask for, and its options, checked."""
        overrides = self._overrides(arguments, params)
        _refuse_ignored(overrides)
        conditions, options = _conditions(overrides, composer, self._frameworks())
        search.require_bounded(conditions, options.search)
        if devices.PLACE.elsewhere and options.search is not None:
            raise RequestError("study.search probes one batch after another on one machine; leave hydra/launcher out")
        _refuse_shared_search(conditions, options.search)
        return _design(conditions, options, overrides), options

    def _themes(self, arguments: Sequence[str], composer: compose.Composer) -> list[Study]:
        """A study for each theme, all under the name of the first."""
        _refuse_ignored(self._overrides(arguments, {}))
        studies: list[Study] = []
        began = time.monotonic()
        for theme in self.themes:
            lines, params = themes.arguments_of(theme, arguments), composer.preset(theme)
            try:
                design, options = self._study(lines, params, composer)
            except RequestError as error:
                raise RequestError(f"theme {theme}: {error}") from error
            name = themes.folder_name(options, studies[0][1].name if studies else None)
            command = themes.command_of(lines, REQUEST.multirun)
            studies.append((replace(design, command=command), replace(options, name=name).in_theme(theme, began)))
        return studies

    def _jobs(self, design: Design, options: StudyOptions) -> str:
        """The jobs that would go out for a study, and what each asks for, in a sentence."""
        config = launchers.prepared(self.config, needs.of(design), Path("outputs"), "study")
        cut = batches.cut(design, options, range(design.blocks), lambda _: False)
        return f"{batches.counted(cut)}; a job asks for: {launchers.asked(config)}"

    def _run_all(self) -> int:
        """Run every study that was asked for, and what belongs to all of them. The worst exit status."""
        if self.themes:
            themes.begin(REQUEST.studies[0][1], self.themes)
        statuses = [self._run(number) for number in range(len(REQUEST.studies))]
        if self.themes:
            statuses.append(themes.conclude(REQUEST.studies[0][1]))
        return max(statuses)

    def _frameworks(self) -> list[str]:
        hydra = self.config.hydra
        return self.context.config_loader.get_group_options(
            "framework", config_name=hydra.job.config_name, overrides=list(hydra.overrides.hydra)
        )

    def _overrides(self, arguments: Sequence[str], params: dict[str, Any]) -> list[Override]:
        parser = OverridesParser.create(config_loader=self.context.config_loader)
        given = parser.parse_overrides(overrides=list(arguments))
        keys = {override.key_or_group for override in given}
        preset = [f"{key}={value}" for key, value in params.items()]
        return [one for one in parser.parse_overrides(overrides=preset) if one.key_or_group not in keys] + given

    def _run(self, number: int) -> int:
        """This study of the request, in this process or as the head of workers; the exit status."""
        if not devices.PLACE.elsewhere:
            return max(self._launch([str(number)], self.config))
        design, options = REQUEST.studies[number]

        def launch(files: list[Path], name: str) -> list[Any]:
            config = launchers.prepared(self.config, needs.of(design), files[0].parent.parent, name)
            return self._launch([str(one) for one in files], config)

        return dispatch.run(design, options, launch, Console())

    def _launch(self, named: list[str], config: DictConfig) -> list[Any]:
        launcher = Plugins.instance().instantiate_launcher(
            hydra_context=self.context, task_function=self.task_function, config=config
        )
        returned = launcher.launch([[f"study.batch={compose.quoted(one)}"] for one in named], initial_job_idx=0)
        return [job.return_value for job in returned]


@contextlib.contextmanager
def _collector_at_rest() -> Iterator[None]:
    """Conditions are kept to the end: looking through them for garbage over and over would take a fifth of the time.

    What is there afterwards is left out of later collections too.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.freeze()


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


def _conditions(
    overrides: Sequence[Override], composer: compose.Composer, frameworks: list[str]
) -> tuple[list[Condition], StudyOptions]:
    lists = [_levels(override) for override in overrides]
    count = math.prod(map(len, lists))
    if count > MOST_CONDITIONS:
        raise RequestError(f"the sweep has {count:,} conditions or more; at most {MOST_CONDITIONS:,} go into one study")
    conditions: list[Condition] = []
    options = None
    for combination in itertools.product(*lists):
        settings = composer.settings(list(combination))
        options = options or options_from(settings)
        company = colocation.tenants(settings.colocation, frameworks)
        # co-location replaces the framework, and solo trials have no stagger: sweeps over these name them once
        if all(
            levels[0] == level for levels, level in zip(lists, combination, strict=True) if _unmeant(level, company)
        ):
            conditions += _combined(composer, combination, settings, company)
    assert options is not None, "a product over lists that are never empty"
    return conditions, options


def _unmeant(line: str, company: list[str]) -> bool:
    """Whether an override means nothing to these conditions: the framework to tenants, the stagger to a solo trial."""
    return line.startswith("framework=" if company else "colocation_stagger_seconds=")


def _combined(
    composer: compose.Composer, lines: Sequence[str], settings: Settings, company: list[str]
) -> list[Condition]:
    """The conditions of one combination of levels: one, or one for each tenant, which share all but the framework."""
    if not company:
        return [condition_from(settings)]
    others = [line for line in lines if not line.startswith("framework=")]
    each = {level: composer.settings([*others, f"framework={level}"]) for level in dict.fromkeys(company)}
    return [condition_from(each[level], company, number) for number, level in enumerate(company, start=1)]


def _refuse_shared_search(conditions: Sequence[Condition], asked: str | None) -> None:
    if asked is not None and any(one.tenant is not None for one in conditions):
        raise RequestError(f"study.search={asked} finds what one trial alone can hold; leave colocation out")


def _levels(override: Override) -> list[str]:
    if not override.is_sweep_override():
        return [override.input_line or ""]
    levels = list(itertools.islice(override.sweep_string_iterator(), MOST_CONDITIONS + 1))
    if not levels:
        raise RequestError(f"{override.input_line} names no level")
    return [f"{override.get_key_element()}={level}" for level in levels]


def _design(conditions: list[Condition], options: StudyOptions, overrides: Sequence[Override]) -> Design:
    swept = [override.key_or_group for override in overrides if override.is_sweep_override()]
    single = not REQUEST.multirun and (len(conditions) == 1 or not swept)
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
    # from here on its own name again: other machines find the class by it when they read what a launcher sends
    StudySweeper.__module__ = __name__
    node = {"_target_": f"{alias}.StudySweeper", "params": None, "themes": None}
    ConfigStore.instance().store(group="hydra/sweeper", name="study", node=node, provider="study")
