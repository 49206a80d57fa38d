"""manifest.yaml: the design of a study, for a person to read. Written before the first launch.

It is a view of the session lines in the journal; nothing reads it back but the next session, which adds itself.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import yaml

from runners.records import SessionRecord
from study.errors import RequestError

#: A design with more conditions than these is not listed.
MOST_LISTED = 500

#: A factor of thousands of levels takes libyaml, where PyYAML was built with it, a tenth of the time.
DUMPER = getattr(yaml, "CSafeDumper", yaml.SafeDumper)

#: The file by which a folder of themes is known (`study.themes`).
THEMES = "themes.yaml"


def write(folder: Path, session: SessionRecord) -> None:
    """Add a session to the manifest, replacing the file in one step. Raises `RequestError` where that fails."""
    path = folder / "manifest.yaml"
    try:
        sessions = [*_earlier(path), _section(session)]
        body = {"study": session.study, "sessions": sessions}
        text = yaml.dump(body, Dumper=DUMPER, sort_keys=False, allow_unicode=True, width=120)
        temporary = path.with_suffix(".yaml.new")
        with temporary.open("w", encoding="utf-8") as file:
            file.write(
                "# The design of this study. Factors, seed, order and versions; the trials are in journal/.\n" + text
            )
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        raise RequestError(f"{path} could not be written: {error.strerror}. Nothing was launched") from error


def _section(session: SessionRecord) -> dict[str, Any]:
    return {
        "session_id": session.session_id,
        "started_utc": session.started_utc,
        "design": _readable(session),
        "provenance_hash": session.provenance_hash,
        "provenance": session.provenance,
    }


def _readable(session: SessionRecord) -> dict[str, Any]:
    """The design; of a long one neither conditions nor order are repeated, which nobody would read."""
    count = len(session.design.get("conditions") or [])
    if count <= MOST_LISTED:
        return session.design
    where = f"{count} conditions: see the first line of journal/{session.session_id}.jsonl"
    return {**session.design, "conditions": where, "order": where}


def _earlier(path: Path) -> list[dict[str, Any]]:
    if not path.exists():
        return []
    try:
        read = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError):
        return []  # a damaged view costs nothing: the journals hold the sessions
    sessions = read.get("sessions") if isinstance(read, dict) else None
    return list(sessions) if isinstance(sessions, list) else []
