"""FLOPs of products and convolutions in a StableHLO module, against counts worked out by hand."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

# JAX creates a backend, and this process must stay without one: every module is made in a process of its own
PROGRAM = """
import jax, jax.numpy as jnp
from jax import lax
from runners.compiled import flops, xla

def shape(*sizes, dtype="float32"):
    return jax.ShapeDtypeStruct(sizes, dtype)

def count(function, *shapes):
    module = xla.parse(jax.jit(function).lower(*shapes).as_text().encode(), "stablehlo", 0)
    with module.context:
        return flops.matrix_flops(module.stablehlo)

def looped(length):
    def function(x, w):
        return lax.scan(lambda x, _: (jnp.tanh(x @ w), ()), x, None, length=length)[0]
    return function

def until_small(x, w):
    return lax.while_loop(lambda x: jnp.sum(x) > 1.0, lambda x: x @ w, x)

def nested(x, w):
    def outer(i, x):
        return lax.fori_loop(0, 3, lambda j, x: x @ w, x)
    return lax.fori_loop(2, 7, outer, x)

def unused(x, w):
    _ = x @ w
    return x + 1.0

def branches(x, w):
    return lax.cond(x[0, 0] > 0, lambda: x @ w, lambda: (x @ w) @ w)

def conv(stride, padding, dilation=1, groups=1):
    def function(x, k):
        return lax.conv_general_dilated(
            x, k, (stride,), padding, lhs_dilation=(dilation,), dimension_numbers=("NWC", "WIO", "NWC"),
            feature_group_count=groups,
        )
    return function

X, W = shape(4, 8), shape(8, 8)
print(count(lambda x, w: x @ w, X, W))
print(count(looped(5), X, W))
print(count(nested, X, W))
print(count(until_small, X, W))
print(count(unused, X, W))
print(count(branches, X, W))
print(count(conv(1, "VALID"), shape(2, 10, 3), shape(3, 3, 5)))
print(count(conv(1, "SAME"), shape(2, 10, 3), shape(3, 3, 5)))
print(count(conv(1, [(2, 2)], dilation=2), shape(2, 4, 3), shape(3, 3, 5)))
print(count(conv(2, "VALID", groups=2), shape(2, 9, 4), shape(3, 2, 6)))
"""


@pytest.fixture(scope="module")
def counted() -> list[str]:
    environment = {"JAX_PLATFORMS": "cpu", "PATH": "/usr/bin:/bin", "PYTHONPATH": "."}
    command = [sys.executable, "-c", textwrap.dedent(PROGRAM)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_products_loops_and_dead_code(counted: list[str]) -> None:
    product = 2 * 4 * 8 * 8
    # a scan of 5; loops of 5 × 3; a length that depends on data; a result nobody needs; the dearer branch
    assert counted[:6] == [str(product), str(5 * product), str(15 * product), "None", "0", str(2 * product)]


def test_convolutions_count_the_taps_inside(counted: list[str]) -> None:
    # VALID: 8 places × 3 taps; SAME: 10 × 3 less one tap at either end
    valid, same = 2 * 2 * 3 * 5 * (8 * 3), 2 * 2 * 3 * 5 * (10 * 3 - 2)
    # input 1·1·1·1 (· is a hole), 2 of padding either side: places 0 … 8 of 11, an element under every other tap
    under = sum((place + tap - 2) in (0, 2, 4, 6) for place in range(9) for tap in range(3))
    dilated = 2 * 2 * 3 * 5 * under
    # stride 2: 4 places × 3 taps, two groups of 2 features each
    grouped = 2 * 2 * 2 * 6 * (4 * 3)
    assert counted[6:] == [str(valid), str(same), str(dilated), str(grouped)]
