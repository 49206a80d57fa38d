"""Plans that were compiled before, one checksummed file each, under the user's cache folder.

A key hashes what a plan depends on: the canonical HLO text without metadata (TensorFlow's serialised form differs
between processes, its text does not), the compiler's version and the target.
"""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
from pathlib import Path
from typing import Any

from runners.lines import RecordError, decode_line, encode_line

#: Raised when what is stored, or how it is counted, changes.
FORMAT = 2


def folder() -> Path:
    """$XDG_CACHE_HOME/accelerator-study/plans, or the same under ~/.cache."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "accelerator-study" / "plans"


def module_hash(canonical_text: str) -> str:
    """64 hexadecimal digits over a module's canonical text, without the module's name and running numbers."""
    text = re.sub(r"\AHloModule [^,\n]*", "HloModule", canonical_text)
    return hashlib.sha256(re.sub(r"_\d+__", "__", text).encode()).hexdigest()


def key(module: str, compiler: str, target: str) -> str:
    """The file name of a plan, from the module's hash, the compiler's version and the target's description."""
    return hashlib.sha256("\n".join([str(FORMAT), module, compiler, target]).encode()).hexdigest()


def read(name: str) -> dict[str, Any] | None:
    """What was stored under `name`; None where nothing was, or where it cannot be read (it is then written anew)."""
    try:
        return decode_line((folder() / f"{name}.json").read_text(encoding="utf-8"))
    except (OSError, RecordError, UnicodeDecodeError):
        return None


def write(name: str, value: dict[str, Any]) -> None:
    """Store `value` in one step, so that a reader sees all of it or none. Raises `OSError` where that fails."""
    target = folder() / f"{name}.json"
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=".plan-")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(encode_line(value))
        Path(temporary).replace(target)
    except OSError:
        Path(temporary).unlink()
        raise
