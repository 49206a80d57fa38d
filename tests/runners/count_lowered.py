"""Prints the FLOP of products and convolutions in every lowered module of a folder: `count_lowered.py FOLDER`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from runners.compiled import xla
from runners.compiled.flops import matrix_flops


def main(folder: str) -> None:
    """Count the work of StableHLO, whichever framework it came from."""
    counts = {}
    for path in sorted(Path(folder).iterdir()):
        module = xla.parse(path.read_bytes(), path.suffix[1:], donated=0)
        with module.context:
            counts[path.stem] = matrix_flops(module.stablehlo)
    print(json.dumps(counts))


if __name__ == "__main__":
    main(*sys.argv[1:])
