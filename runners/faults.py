"""The faults that this program recognises by itself, as opposed to whatever a framework raises."""

from __future__ import annotations

#: The outcome kinds that a child may claim; every other outcome is the parent's to classify.
KINDS = frozenset({"invalid", "unavailable", "config", "not_applicable"})


class TrialFault(Exception):
    """A trial cannot give a valid value, and our own code knows why.

    Args:
        kind: one of `KINDS`, the outcome that the record will carry.
        reason: a short phrase of fixed wording, fit for grouping rows (no values in it).
        text: what a person reads: what was wrong, which value, what to do.
    """

    def __init__(self, kind: str, reason: str, text: str) -> None:
        if kind not in KINDS:
            raise ValueError(f"a fault of kind {kind!r}; the kinds are {', '.join(sorted(KINDS))}")
        super().__init__(text)
        self.kind = kind
        self.reason = reason


def mistake(reason: str, text: str) -> TrialFault:
    """A fault in what the user asked for or wrote."""
    return TrialFault("config", reason, text)
