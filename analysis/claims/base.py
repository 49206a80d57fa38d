"""What a claim is: words that somebody wrote, a question, a rule fixed beforehand, and findings by kind of evidence."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum

from analysis.claims.evidence import Evidence


class Verdict(StrEnum):
    """The closed list."""

    SUPPORTED = "supported"
    REFUTED = "refuted"
    DEPENDS = "depends"
    NOT_TESTABLE = "not testable here"


class Kind(StrEnum):
    """Where a finding comes from, the strongest first: a weaker kind never outvotes a stronger one."""

    MEASURED = "measured"
    COMPILED = "compiled"
    MODELLED = "modelled"


@dataclass(frozen=True)
class Finding:
    """What one kind of evidence says: `where` it comes from (a device, a chip, a model) and the numbers in a sentence.

    `depends_on` names what the answer hangs on, where it does.
    """

    kind: Kind
    verdict: Verdict
    where: str
    text: str
    depends_on: str = ""


def decided(kind: Kind, holds: bool, where: str, text: str) -> Finding:
    """A finding that either supports a claim or refutes it."""
    return Finding(kind, Verdict.SUPPORTED if holds else Verdict.REFUTED, where, text)


@dataclass(frozen=True)
class Claim:
    """One claim. `metric`, `margin` and `test` are its rule; `needs` is what a machine must have for it to be tested.

    `documented` says what the primary sources state, and where: context, never a verdict.
    """

    name: str
    statement: str
    question: str
    metric: str
    margin: str
    test: str
    needs: str
    documented: str
    judge: Callable[[Evidence], Iterable[Finding]]


@dataclass(frozen=True)
class Answer:
    """A claim, the findings of every kind, and the verdict of the strongest kind that has one."""

    claim: Claim
    findings: tuple[Finding, ...]

    @property
    def verdict(self) -> Verdict:
        """`depends` where findings of the strongest kind differ; `not testable here` where there is none."""
        verdicts = {one.verdict for one in self.strongest}
        if not verdicts:
            return Verdict.NOT_TESTABLE
        return verdicts.pop() if len(verdicts) == 1 else Verdict.DEPENDS

    @property
    def strongest(self) -> tuple[Finding, ...]:
        """The findings that settle the verdict."""
        kinds = [kind for kind in Kind if any(one.kind is kind for one in self.findings)]
        return tuple(one for one in self.findings if kinds and one.kind is kinds[0])

    @property
    def depends_on(self) -> str:
        """What the verdict hangs on: as the findings say, else where they differ."""
        if self.verdict is not Verdict.DEPENDS:
            return ""
        stated = [one.depends_on for one in self.strongest if one.depends_on]
        return "; ".join(stated) or "; ".join(f"{one.verdict} on {one.where}" for one in self.strongest)


def answer(claim: Claim, evidence: Evidence) -> Answer:
    """Put a claim to the evidence."""
    return Answer(claim, tuple(claim.judge(evidence)))
