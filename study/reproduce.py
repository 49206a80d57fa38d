"""`study reproduce outputs/NAME`: run a study's command again, at a chosen scale, and say which findings held.

The command is the one that the study's last session recorded. The repetition is a study of its own; both are then set
side by side by `python -m analysis compare`.
"""

from __future__ import annotations

import argparse
import itertools
import re
import shlex
import subprocess
import sys
from pathlib import Path

from rich.console import Console

from study import help
from study.errors import EXIT_FINDINGS, EXIT_OK, EXIT_REQUEST, RequestError
from study.journal import read_past
from study.session import OUTPUTS

#: Settings that belonged to that one run, not to what it measured.
OF_ONE_RUN = ("study.name", "study.resume", "study.dry_run", "study.max_seconds")

#: What `study.provenance.scrub` puts in the place of a folder that is nobody else's business.
_LEFT_OUT = re.compile(r"<(study|environment|python|host)>|(?<==)~")


def main(arguments: list[str]) -> int:
    """The subcommand. Exit status as of the study; 1 also when a finding is reversed or gone."""
    options = _parser().parse_intermixed_args(arguments)
    folder = Path(options.folder)
    try:
        name = options.name or free_name(folder.resolve().name, options.scale)
        request = repeated(recorded_command(folder), name, _overrides(options))
    except RequestError as error:
        Console(stderr=True, soft_wrap=True).print(str(error), highlight=False, markup=False)
        return EXIT_REQUEST
    Console(soft_wrap=True).print(f"python -m study {shlex.join(request)}", highlight=False, markup=False)
    from study.__main__ import run  # here and not above: that module imports this one

    status = run(request)
    if status not in (EXIT_OK, EXIT_FINDINGS) or options.dry_run:
        return status
    return max(status, compare(folder, OUTPUTS / name))


def recorded_command(folder: Path) -> list[str]:
    """The arguments that the study's last session was started with.

    Raises:
        RequestError: the folder is no study's, or its sessions recorded no command.
    """
    if not (folder / "journal").is_dir():
        raise RequestError(f"{folder} holds no journal/: give the folder of a study, such as outputs/NAME")
    sessions = read_past(folder).sessions
    commands = [str(one["design"]["command"]) for one in sessions if one.get("design", {}).get("command")]
    if not commands:
        raise RequestError(f"no session of {folder} recorded its command, so that it cannot be run again")
    words = shlex.split(commands[-1])
    return words[3:] if words[:3] == ["python", "-m", "study"] else words[1:]


def repeated(recorded: list[str], name: str, overrides: list[str]) -> list[str]:
    """The recorded arguments under a new name, with `overrides` in place of the same settings.

    Raises:
        RequestError: an argument holds a path that the record left out, and no override gives it.
    """
    replaced = {_key(override) for override in overrides}
    kept = [word for word in recorded if _key(word) not in replaced and _key(word) not in OF_ONE_RUN]
    unknown = [word for word in kept if _LEFT_OUT.search(word)]
    if unknown:
        raise RequestError(
            f"the record leaves out a folder in {', '.join(unknown)}; add {_key(unknown[0])}=… with the path here"
        )
    return [*kept, *overrides, f"study.name={name}"]


def free_name(name: str, scale: str | None) -> str:
    """A name under outputs/ that no study has yet."""
    base = f"{name}-reproduced{'-' + scale if scale else ''}"
    candidates = itertools.chain([base], (f"{base}-{number}" for number in itertools.count(2)))
    return next(one for one in candidates if not (OUTPUTS / one).exists())


def compare(first: Path, second: Path) -> int:
    """Set both studies side by side, in a process of its own. Returns its exit status."""
    options = ["--fail-on-lost-finding", "--output", str(second / "compare")]
    command = [sys.executable, "-P", "-m", "analysis", "compare", str(first), str(second), *options]
    return subprocess.run(command, check=False).returncode


def _overrides(options: argparse.Namespace) -> list[str]:
    given = list(options.overrides)
    if options.scale is not None:
        scales = help.levels("protocol")
        if options.scale not in scales:
            raise RequestError(f"--scale {options.scale} is no protocol; it takes one of {', '.join(scales)}")
        given.append(f"protocol={options.scale}")
    if options.blocks is not None:
        given.append(f"study.blocks={options.blocks}")
    if options.dry_run:
        given.append("study.dry_run=true")
    wrong = [word for word in given if "=" not in word]
    if wrong:
        raise RequestError(f"{wrong[0]} is no setting; further arguments are overrides such as workload.size=tiny")
    return given


def _key(word: str) -> str:
    """The setting that an override is about; a flag is about itself."""
    return word.split("=")[0].lstrip("+~")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="study reproduce",
        description="Run a study's recorded command again as a new study, then say which findings held.",
        epilog="Exit status as of a study; 1 also when a finding of the first is reversed or gone.",
    )
    parser.add_argument("folder", metavar="outputs/NAME", help="folder of the study")
    parser.add_argument("overrides", nargs="*", metavar="KEY=VALUE", help="settings to change, as for a study")
    parser.add_argument("--scale", help="a protocol level, such as smoke or paper (default: as recorded)")
    parser.add_argument("--blocks", type=int, help="number of blocks (default: as recorded, else the protocol's)")
    parser.add_argument("--name", help="name of the new study (default: NAME-reproduced)")
    parser.add_argument("--dry-run", action="store_true", help="list what would run, run nothing")
    return parser
