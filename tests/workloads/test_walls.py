"""A framework is imported in runners/frameworks and runners/compiled, and else inside workload steps only."""

from __future__ import annotations

import ast
import json
import subprocess
import sys

import pytest

from runners import workloads
from tests.runners.harness import ROOT, environment

FRAMEWORKS = {"jax", "jaxlib", "tensorflow", "keras"}
ALLOWED = ("runners/frameworks/", "runners/compiled/")
SOURCES = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "runners").rglob("*.py"))

#: Keras builds its models to know their shapes: its page needs a back end for all that it tells.
WITHOUT_FRAMEWORK = [name for name in workloads.names() if name != "keras"]


@pytest.mark.parametrize("source", [one for one in SOURCES if not one.startswith(ALLOWED)])
def test_no_framework_is_imported_outside_a_function(source: str) -> None:
    assert imported_at_import(ast.parse((ROOT / source).read_text())) & FRAMEWORKS == set()


def imported_at_import(tree: ast.AST) -> set[str]:
    """The packages that are imported where no function is called."""
    found: set[str] = set()
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        names = [one.name for one in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        found |= {name.partition(".")[0] for name in names} | imported_at_import(node)
    return found


def test_the_wall_would_be_seen_through() -> None:
    for file in ("jax_layers.py", "tf_layers.py", "jax_runner.py", "tf_runner.py"):
        tree = ast.parse((ROOT / "runners/frameworks" / file).read_text())
        assert imported_at_import(tree) & FRAMEWORKS


def test_every_page_tells_its_work_without_any_framework() -> None:
    code = f"""
import json, sys
for name in {sorted(FRAMEWORKS)}:
    sys.modules[name] = None
from itertools import islice
from runners import contract, workloads
from tests.runners.harness import workload
told = {{}}
for name in {WITHOUT_FRAMEWORK}:
    asked = workload(name)
    page = workloads.load(asked)
    problem = contract.problem_of(page, asked, 7)
    losses = [loss for _, loss in islice(page.reference(asked, problem.made()), 1)]
    told[name] = [contract.counts_of(page, asked).examples, len(losses)]
print(json.dumps(told))
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, env=environment(""), check=False
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert list(told) == WITHOUT_FRAMEWORK
    assert all(examples >= 1 and losses == 1 for examples, losses in told.values())
