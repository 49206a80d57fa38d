"""T3: what changing shapes cost a compiled step."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from analysis import words
from analysis.claims.base import Claim, Finding, Kind, decided
from analysis.claims.evidence import Evidence
from analysis.labels import framework_label

SHAPES = "workload.shape.shapes"


def judge(evidence: Evidence) -> Iterator[Finding]:
    """The traces of JAX against the number of shapes decide; TensorFlow's are told beside them."""
    trials = evidence.ok({"workload": "dynamic_shapes"})
    jitted = trials[trials["framework"] == "jax"]
    if not len(jitted):
        return
    as_many = bool((jitted["traces"] == evidence.setting(SHAPES, jitted)).all())
    parts = [_sentence(evidence, one) for _, one in trials.groupby(_levels(evidence, trials), sort=False)]
    text = f"traces by the number of shapes (and time for tracing and compiling): {', '.join(parts)}"
    yield decided(Kind.MEASURED, as_many, _devices(trials), text)


def _levels(evidence: Evidence, trials: pd.DataFrame) -> list[pd.Series]:
    tracing = evidence.setting("workload.tracing", trials)
    return [trials["framework"], trials["compile"], tracing, evidence.setting(SHAPES, trials)]


def _sentence(evidence: Evidence, trials: pd.DataFrame) -> str:
    first = trials.iloc[0]
    framework = framework_label(first["framework"], first["compile"])
    tracing = evidence.setting("workload.tracing", trials).iloc[0]
    shapes = evidence.setting(SHAPES, trials).iloc[0]
    counts = words.listed([str(int(count)) for count in sorted(trials["traces"].unique())])
    seconds = words.seconds(trials["retrace_seconds"].median())
    how = "" if framework == "jax" else f" {tracing}"
    return f"{framework}{how} {counts} of {shapes} ({seconds})"


def _devices(trials: pd.DataFrame) -> str:
    return words.listed([f"this {device.upper()}" for device in trials["device"].unique()])


STATIC_SHAPES = Claim(
    name="T3",
    statement="JAX's jit wants static shapes: a new shape compiles again.",
    question="How often is a step traced when the row count of its batch takes twenty values?",
    metric="traces by the end of warm-up, against the number of row counts",
    margin="none: counts are exact",
    test="supported: in every trial JAX traces once for each row count; refuted: in one it traces less often",
    needs="any machine",
    documented="JAX's guide to jit: compiled code is cached by the shapes and dtypes of its arguments; TensorFlow's "
    "guide to tf.function offers reduce_retracing and input signatures against the same",
    judge=judge,
)
