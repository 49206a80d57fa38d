"""`python -m study`: one command composes a sweep, runs it and reports it.

Exit status: 0 every trial answered (ok, oom, not applicable) and every pair matched; 1 a trial or a match failed; 2 the
request was wrong and nothing was launched; 130 after Ctrl-C, with every finished trial kept.
"""

from __future__ import annotations

import io
import os
import shlex
import sys
from pathlib import Path

import hydra
from rich.console import Console

from study import compose, dry_run, help, launchers, modes, reproduce, schema, sweeper
from study.errors import EXIT_FINDINGS, EXIT_OK, EXIT_REQUEST, RequestError
from study.interrupts import Interrupted, interruptible
from study.jobs import job
from study.request import REQUEST

#: Hydra's own commands; anything else is a sweep, of one condition or of many.
HYDRA_COMMANDS = {"--cfg", "-c", "--info", "-i", "--hydra-help", "--shell-completion", "-sc", "--version"}
MULTIRUN = {"-m", "--multirun"}

PAST_THE_SWEEPER = {"-r", "--run", "--experimental-rerun", "hydra.mode", "hydra/sweeper"}

#: First words that Hydra could not parse, each with its own command line.
SUBCOMMANDS = {"modes": modes.main, "reproduce": reproduce.main}


def main() -> None:
    """The console script `study`."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run one command line and return its exit status."""
    if not sys.platform.startswith("linux"):
        _say("study runs on Linux only (WSL2 included): it supervises trials through /proc and pidfds")
        return EXIT_REQUEST
    if arguments and arguments[0] in SUBCOMMANDS:
        return SUBCOMMANDS[arguments[0]](arguments[1:])
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    if {"--help", "-h"} & set(arguments):
        help.show(Console())
        return EXIT_OK
    REQUEST.command = "python -m study " + shlex.join(arguments)
    REQUEST.multirun = bool(MULTIRUN & set(arguments))
    refused = PAST_THE_SWEEPER & {one.partition("=")[0] for one in arguments}
    if refused:
        _say(f"{refused.pop()} is Hydra's and goes past the study's sweeper; leave it out")
        return EXIT_REQUEST
    schema.register()
    sweeper.register()
    if any(argument.split("=")[0] in HYDRA_COMMANDS for argument in arguments):
        return _hydra_command(arguments)
    # every run goes through the sweeper, one condition too; a flag between overrides would stop Hydra's parser
    return _study([*(one for one in arguments if one not in MULTIRUN), "--multirun"])


def conf_folder() -> Path:
    """The checkout's conf/ where there is one, else the one that was installed with the package."""
    here = Path(__file__).parent
    beside = here.parent / "conf"
    return beside if (beside / "config.yaml").exists() else here / "conf"


def _study(arguments: list[str]) -> int:
    try:
        launchers.require_plugin(arguments)
        with interruptible():
            _hydra(arguments)
    except Interrupted as stop:
        return stop.exit_status
    except BrokenPipeError:
        _say("nobody reads what the study prints any more, so it has stopped; study.resume=outputs/NAME runs the rest")
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_FINDINGS
    except compose.COMPOSITION_ERRORS as error:
        REQUEST.error = RequestError(compose.explain(error))
    except ValueError as error:
        # how Hydra refuses GROUP=null
        if not str(error).startswith("Config group override"):
            raise
        REQUEST.error = RequestError(f"{error}: choose a level by its name, or leave the group out")
    except OSError as error:
        REQUEST.error = RequestError(str(error))
    except RequestError as error:
        REQUEST.error = error
    if REQUEST.error is not None:
        _say(str(REQUEST.error))
        return EXIT_REQUEST if isinstance(REQUEST.error, RequestError) else EXIT_FINDINGS
    if not REQUEST.studies:
        _say("this way past the study's sweeper runs nothing; leave out hydra.mode and hydra/sweeper")
        return EXIT_REQUEST
    dry = [(design, options.theme) for design, options in REQUEST.studies if options.dry_run]
    for number, (design, theme) in enumerate(dry):
        dry_run.show(design, Console(), theme, REQUEST.jobs[number] if REQUEST.jobs else "")
    if dry:
        return EXIT_OK
    return REQUEST.exit_status


def _hydra_command(arguments: list[str]) -> int:
    try:
        _hydra(arguments)
    except compose.COMPOSITION_ERRORS as error:
        _say(compose.explain(error))
        return EXIT_REQUEST
    except (ValueError, AssertionError) as error:
        _say(f"{shlex.join(arguments)}: {error}")
        return EXIT_REQUEST
    except SystemExit as end:
        return EXIT_REQUEST if end.code else EXIT_OK
    return EXIT_OK


def _hydra(arguments: list[str]) -> None:
    # with this set Hydra raises its composition errors instead of printing them among advice of its own
    os.environ["HYDRA_FULL_ERROR"] = "1"
    sys.argv[1:] = arguments
    hydra.main(version_base="1.3", config_path=str(conf_folder()), config_name="config")(job)()


def _say(text: str) -> None:
    Console(stderr=True, soft_wrap=True).print(text, highlight=False, markup=False)


if __name__ == "__main__":
    main()
