"""A trial as `python -m runners` runs it; afterwards the names of the frameworks that the process holds, on stdout."""

from __future__ import annotations

import sys

from runners.__main__ import main

if __name__ == "__main__":
    status = main(sys.argv[1:])
    print([name for name in ("jax", "jaxlib", "tensorflow") if sys.modules.get(name) is not None])
    sys.exit(status)
