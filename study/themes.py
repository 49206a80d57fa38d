"""A preset of several themes (+experiment=claims): every theme is a study of its own, in a folder under one name.

So each theme has its own factors, primary factor, report and resume; what they answer together is settled at the end by
`python -m analysis claims` over all of them.
"""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import yaml

from study import manifest
from study.config import StudyOptions
from study.errors import RequestError
from study.session import OUTPUTS, dated_name


def arguments_of(theme: str, arguments: Sequence[str]) -> list[str]:
    """The command line with this theme's preset in the place of the one that lists the themes."""
    return [f"+experiment={theme}", *(one for one in arguments if one.lstrip("+").split("=")[0] != "experiment")]


def command_of(arguments: Sequence[str], multirun: bool) -> str:
    """The command that runs one theme alone, as its design records it."""
    return shlex.join(["python", "-m", "study", *(["-m"] if multirun else []), *arguments])


def folder_name(options: StudyOptions, first: str | None) -> str:
    """The name under outputs/ that all themes share: as asked for, as resumed, else made of date and time.

    Raises:
        RequestError: there is nothing to resume.
    """
    if options.resume is not None:
        folder = Path(options.resume)
        if folder.resolve().parent != OUTPUTS.resolve() or not folder.is_dir():
            raise RequestError(f"study.resume={options.resume} is no folder of themes under {OUTPUTS}/")
        return folder.resolve().name
    return options.name or first or dated_name("themes")


def begin(options: StudyOptions, names: Sequence[str]) -> None:
    """Mark the folder of all themes with their names, by which the analysis knows it.

    Raises:
        RequestError: the folder is that of a study.
    """
    folder = OUTPUTS / str(options.name)
    if (folder / "journal").exists():
        raise RequestError(f"{folder} holds another study; give the themes another study.name")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / manifest.THEMES).write_text(yaml.safe_dump({"themes": list(names)}, sort_keys=False), encoding="utf-8")


def conclude(options: StudyOptions) -> int:
    """Settle the claims over all themes, in a process of its own. Its exit status."""
    if not options.report:
        return 0
    command = [sys.executable, "-P", "-m", "analysis", "claims", str(OUTPUTS / str(options.name))]
    return subprocess.run(command, check=False).returncode
