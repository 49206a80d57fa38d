"""The buffers at a step's boundary, of modules that JAX really lowered, against sizes worked out by hand."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap

# JAX creates a backend, and this process must stay without one
PROGRAM = """
import json
import jax, jax.numpy as jnp
from runners.compiled import boundary, xla

def shape(*sizes, dtype="float32"):
    return jax.ShapeDtypeStruct(sizes, dtype)

def found(function, *shapes, donate=()):
    text = jax.jit(function, donate_argnums=donate).lower(*shapes).as_text()
    module = xla.parse(text.encode(), "stablehlo", 0)
    with module.context:
        return boundary.buffers(module.stablehlo)

def step(state, batch):
    return {"w": state["w"] + batch, "n": state["n"] * 2}, jnp.sum(batch)

STATE = {"w": shape(3, 5), "n": shape(7, dtype="int8")}
MIXED = [shape(9, dtype="bool"), shape(2, dtype="bfloat16"), shape(4, dtype="complex64"), shape()]
print(json.dumps([
    found(step, STATE, shape(5)),
    found(step, STATE, shape(5), donate=(0,)),
    found(lambda *all: all, *MIXED),
]))
"""


def test_sizes_are_elements_times_width_and_donated_results_are_named() -> None:
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(PROGRAM)], capture_output=True, text=True, check=True, timeout=120
    )
    plain, donated, mixed = json.loads(done.stdout)
    assert plain == [[7, 60, 20], [7, 60, 4], []]
    assert donated == [[7, 60, 20], [7, 60, 4], [0, 1]]
    assert mixed == [[9, 4, 32, 4], [9, 4, 32, 4], []]
