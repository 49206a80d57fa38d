"""The buffers that cross a lowered step's boundary: bytes of every argument and result, and which share memory."""

from __future__ import annotations

import math
from typing import Any

from jax.extend.mlir import ir

#: The attribute of an argument that names the result which reuses its memory.
ALIASING = "tf.aliasing_output"


def buffers(module: Any) -> tuple[list[int], list[int], list[int]]:
    """Bytes of `main`'s arguments and of its results, and the numbers of the results that reuse an argument's memory.

    Bytes are elements × width; a device may pad a buffer beyond that, as a TPU's tiles do.
    """
    (main,) = (one for one in module.body.operations if getattr(one, "name", None) and one.name.value == "main")
    arguments, results = main.type.inputs, main.type.results
    given = [{named.name: named.attr for named in one} for one in main.arg_attrs]
    aliased = [ir.IntegerAttr(one[ALIASING]).value for one in given if ALIASING in one]
    return list(map(_bytes, arguments)), list(map(_bytes, results)), sorted(aliased)


def _bytes(kind: Any) -> int:
    """Whole bytes an element: a predicate takes one, a complex number both its parts."""
    shaped = ir.RankedTensorType(kind)
    element = shaped.element_type
    parts = 1
    if isinstance(element, ir.ComplexType):
        element, parts = element.element_type, 2
    return math.prod(shaped.shape) * parts * -(-element.width // 8)
