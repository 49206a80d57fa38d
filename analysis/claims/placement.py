"""T2: what reaches an accelerator of an array that is asked for on the CPU."""

from __future__ import annotations

from collections.abc import Iterator

from analysis import words
from analysis.claims.base import Claim, Finding, Kind, decided
from analysis.claims.evidence import Evidence

#: An array counts as having been there when so much of it was.
SHARE = 0.5


def judge(evidence: Evidence) -> Iterator[Finding]:
    """One finding a device, from JAX's trials with statistics of the device's memory."""
    for device in ("gpu", "tpu"):
        trials = evidence.ok({"device": device, "framework": "jax", "workload": "placement"})
        asked = evidence.setting("workload.shape.kib", trials).astype(float) * 1024
        shares = (trials["device_live_peak_bytes"].astype("Float64") / asked).dropna()
        if len(shares):
            held = words.mebibytes(trials["device_live_peak_bytes"].max())
            text = f"the accelerator held up to {held} of an array of {words.mebibytes(asked.max())} made on the CPU"
            yield decided(Kind.MEASURED, bool(shares.max() >= SHARE), f"this {device.upper()}", text)


PLACEMENT = Claim(
    name="T2",
    statement="JAX may allocate on the accelerator although told to use the CPU.",
    question="How many bytes of an array made with device=cpu reach the accelerator that is the default?",
    metric="peak of the accelerator's live bytes ÷ bytes of the array",
    margin=f"{SHARE:.0%}",
    test="supported: at least the margin in one trial; else refuted",
    needs="a GPU or a TPU",
    documented="jax#25396, open: jnp.full(device=cpu) allocates on the default device first; "
    "jax.default_device avoids it",
    judge=judge,
)
