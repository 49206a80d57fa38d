"""What every workload page offers, and the few things that pages share.

A page is a module of plain functions; it compiles nothing and imports a framework only inside its steps:

    SUPPORTED_DTYPES                        tuple of names out of float32, bfloat16, float16
    inputs(workload, seed)                  → Problem: the first state and the batch, by name
    reference(workload, problem)            → iterator over (state, loss) of successive steps in float64, in NumPy
    counts(workload)                        → WorkCounts of one step, by formula
    jax_step(workload), tf_step(workload)   → step(state, batch) → (new state, loss): pure; loss a float32 scalar

The arrays of a problem are NumPy arrays, or `Drawn`: shape and dtype are known at once, the numbers are made when asked
for. So a step can be lowered at any size from shapes alone. `abstract(problem)` gives them for both kinds.

The state a step returns has the names, shapes and dtypes of the state it took, and stays bounded however often it is
applied: a trial may run 100,000 steps. A kernel's reference follows the whole step; a model's gives the loss of the
first step only (its state is None), and its gradients are checked against finite differences of that.

A page may also say:

    traces(workload, framework)             → how often the step is traced (1 where the page does not say);
                                              framework is the trial's FrameworkSpec
    COMPILED = False                        the step is not compiled: it drives the framework from the host itself
    applicable(workload, framework, device) → None, or why this combination has no meaning
    notes(workload)                         → sentences that belong to every trial's warnings
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from runners.faults import TrialFault
from runners.specs import WorkloadSpec

Arrays = dict[str, np.ndarray]
#: Name → (shape, dtype's name).
Abstract = dict[str, tuple[tuple[int, ...], str]]
#: (random numbers, shape) → the numbers, in float32 or as integers; the dtype is put on afterwards.
Draw = Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]

#: bfloat16 is no NumPy dtype of its own; ml_dtypes, which JAX and TensorFlow both bring, adds it.
DTYPES = ("float32", "bfloat16", "float16")


@dataclass(frozen=True)
class Drawn:
    """An array that is described and not made yet. Its numbers depend on the seed and its own name alone."""

    shape: tuple[int, ...]
    dtype: np.dtype
    draw: Draw
    seed: tuple[int, ...] = (0,)

    def array(self) -> np.ndarray:
        """The numbers: the same ones at every call."""
        drawn = self.draw(np.random.Generator(np.random.PCG64(list(self.seed))), self.shape)
        assert drawn.shape == self.shape
        return drawn.astype(self.dtype, copy=False)


@dataclass
class Problem:
    """The first state and the batch, by name: the same bytes for every framework.

    `more_batches` are the batches of the steps after the first, where they differ from it; they come round in turn.
    """

    state: Mapping[str, np.ndarray | Drawn]
    batch: Mapping[str, np.ndarray | Drawn]
    more_batches: Sequence[Mapping[str, np.ndarray | Drawn]] = ()

    @property
    def batches(self) -> list[Mapping[str, np.ndarray | Drawn]]:
        """Every batch, the first one first."""
        return [self.batch, *self.more_batches]

    def made(self) -> Problem:
        """The same problem with every number made."""
        return Problem(_made(self.state), _made(self.batch), [_made(batch) for batch in self.more_batches])


@dataclass(frozen=True)
class WorkCounts:
    """What one step does, counted by hand.

    `parameters`: trained numbers. `flops`: additions and multiplications, counted apart; of a model those of its
    products alone, which are nearly all. `matrix_flops`: the part of `flops` in matrix products and convolutions, taps
    inside the input only. `bytes`: compulsory traffic, each input read once and each output written once, as if caches
    were perfect. `examples`: rows of the batch. None: not counted.
    """

    parameters: int | None
    flops: int | None
    bytes: int | None
    examples: int
    matrix_flops: int | None = None


def describe(seed: int, state: Mapping[str, Drawn], *batches: Mapping[str, Drawn]) -> Problem:
    """A problem of described arrays, each with a seed of its own that is made of `seed` and its name."""
    batch, *more = [_seeded(seed, f"batch {index}", one) for index, one in enumerate(batches or ({},))]
    return Problem(_seeded(seed, "state", state), batch, more)


def _seeded(seed: int, side: str, arrays: Mapping[str, Drawn]) -> dict[str, Drawn]:
    # a checksum and not hash(), which differs from process to process
    return {name: replace(array, seed=(seed, zlib.crc32(f"{side} {name}".encode()))) for name, array in arrays.items()}


def normal(shape: tuple[int, ...], dtype: str, deviation: float = 1.0, mean: float = 0.0) -> Drawn:
    """Normally distributed."""

    def draw(random: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
        numbers = random.standard_normal(shape, dtype=np.float32)
        return numbers * np.float32(deviation) + np.float32(mean) if (deviation, mean) != (1.0, 0.0) else numbers

    return Drawn(shape, numpy_dtype(dtype), draw)


def constant(shape: tuple[int, ...], dtype: str, value: float = 0.0) -> Drawn:
    """Every element `value`."""
    return Drawn(shape, numpy_dtype(dtype), lambda _, shape: np.full(shape, value, np.float32))


def integers(shape: tuple[int, ...], high: int) -> Drawn:
    """int32, uniform in [0, high)."""
    return Drawn(shape, np.dtype(np.int32), lambda random, shape: random.integers(0, high, shape, dtype=np.int32))


def made(array: np.ndarray | Drawn) -> np.ndarray:
    """The array itself, made now where it is only described."""
    return array.array() if isinstance(array, Drawn) else array


def _made(arrays: Mapping[str, np.ndarray | Drawn]) -> dict[str, np.ndarray | Drawn]:
    return {name: made(array) for name, array in arrays.items()}


def in_float64(arrays: Mapping[str, np.ndarray | Drawn]) -> Arrays:
    """Every array in float64, integers as they are: what a reference computes with."""
    numbers = {name: made(array) for name, array in arrays.items()}
    return {name: array if array.dtype.kind in "iu" else array.astype(np.float64) for name, array in numbers.items()}


def abstract(arrays: Mapping[str, np.ndarray | Drawn]) -> Abstract:
    """Shape and dtype of every array, nothing made."""
    return {name: (tuple(array.shape), array.dtype.name) for name, array in arrays.items()}


def total_bytes(arrays: Mapping[str, np.ndarray | Drawn]) -> int:
    """Bytes of all arrays together, nothing made."""
    return sum(int(np.prod(array.shape, dtype=np.int64)) * array.dtype.itemsize for array in arrays.values())


def numpy_dtype(name: str) -> np.dtype:
    """One of `DTYPES` or an integer type, as NumPy knows it."""
    if name == "bfloat16":
        import ml_dtypes

        return np.dtype(ml_dtypes.bfloat16)
    return np.dtype(name)


def item_bytes(dtype: str) -> int:
    """Bytes of one element."""
    return numpy_dtype(dtype).itemsize


def require_dtype(dtype: str, page: str, supported: tuple[str, ...]) -> None:
    """Raise `TrialFault` (config) where the page does not offer `dtype`."""
    if dtype not in supported:
        raise TrialFault(
            "config", "dtype not offered", f"{page} has no dtype {dtype!r}; it offers {', '.join(supported)}"
        )


def require_multiple(workload: WorkloadSpec, whole: str, part: str) -> None:
    """Raise `TrialFault` (config) where dimension `whole` is no multiple of dimension `part`."""
    sizes = workload.shape[whole], workload.shape[part]
    if sizes[0] % sizes[1]:
        text = f"workload.shape.{whole}={sizes[0]} is no multiple of workload.shape.{part}={sizes[1]}"
        raise TrialFault("config", "dimension is no multiple", f"{workload.name}: {text}")


class InputHash:
    """16 hex digits of SHA-256 over names, dtypes, shapes and bytes of a problem's arrays, taken one by one."""

    def __init__(self) -> None:
        self._digest = hashlib.sha256()

    def add(self, name: str, array: np.ndarray) -> None:
        """The next array; the sides of a problem come in order, and the names of a side sorted."""
        self._digest.update(f"{name} {array.dtype} {array.shape}\n".encode())
        self._digest.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)

    def digits(self) -> str:
        """The hash of what was added."""
        return self._digest.hexdigest()[:16]


def input_hash(problem: Problem) -> str:
    """The hash of a whole problem; makes one array at a time."""
    found = InputHash()
    for side in (problem.state, *problem.batches):
        for name in sorted(side):
            found.add(name, made(side[name]))
    return found.digits()


def generator(seed: int) -> np.random.Generator:
    """Random numbers for tests and tools: PCG64, so that a seed gives the same bytes on every machine."""
    return np.random.Generator(np.random.PCG64(seed))
