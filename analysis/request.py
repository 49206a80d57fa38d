"""What a request names: the folder of a study, or of themes; and how a wrong one is answered. Imports no pandas."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

#: The file by which a folder of themes is known; the study writes it.
THEMES = "themes.yaml"

Result = TypeVar("Result")


class RequestError(ValueError):
    """What was asked for cannot be analysed. The text is one sentence that says what to do."""


def answered(job: Callable[[], Result]) -> Result | None:
    """The job's result; None where the request was wrong or nothing could be written, which is then said."""
    try:
        return job()
    except RequestError as error:
        print(f"analysis: {error}", file=sys.stderr)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""  # a full disk does not tell which file it was
        print(f"analysis: {where}{error.strerror}; make room there or give --output DIR", file=sys.stderr)
    return None


def journal_files(folder: Path) -> list[Path]:
    """The journal files of a study's folder, by name. Raises `RequestError` where there is none."""
    if not folder.is_dir():
        raise RequestError(f"{folder} is no folder: give the folder of a study, such as outputs/NAME.")
    files = sorted(one for one in (folder / "journal").glob("*.jsonl") if one.is_file())
    if not files:
        raise RequestError(f"{folder} holds no journal (journal/*.jsonl): it is not the folder of a study.")
    return files


def holds_themes(folder: Path) -> bool:
    """Whether this is the folder of a preset of several themes, each a study in a folder of its own."""
    return (folder / THEMES).is_file()


def studies_in(folder: Path) -> list[Path]:
    """The folder itself where it is a study's; of a folder of themes the studies that lie in it, by name.

    Raises:
        RequestError: it is neither, or none of its themes has begun.
    """
    if not holds_themes(folder):
        journal_files(folder)
        return [folder]
    themes = sorted(one.parent for one in folder.glob("*/journal") if any(one.glob("*.jsonl")))
    if not themes:
        raise RequestError(f"{folder} holds no theme that has begun: run its command again to go on.")
    return themes
