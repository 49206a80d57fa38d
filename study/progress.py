"""The live line: done/total, the running condition and phase, time left. Off a terminal: one line a trial."""

from __future__ import annotations

import time
from types import TracebackType

from rich.console import Console
from rich.live import Live as LiveLine
from rich.text import Text

from runners.records import Outcome, OutcomeKind, Phase, TrialRecord
from runners.specs import TrialSpec

#: What a trial says of its own request, so that a person can mend it.
ADVISED = (OutcomeKind.CONFIG, OutcomeKind.INVALID, OutcomeKind.NOT_APPLICABLE)


class Progress:
    """Told by the supervisor; draws at most once a second and never during a measured window.

    Drawing happens only in the parent's own thread: a refreshing thread would take time from the measurement.
    """

    def __init__(self, console: Console, total: int, varying: list[str]) -> None:
        self._console, self._total, self._varying = console, total, varying
        self._done = self._failed = 0
        self._started = time.monotonic()
        self._drawn = 0.0
        self._now: tuple[str, Phase] | None = None
        self._advice: set[str] = set()
        self._line = LiveLine(console=console, auto_refresh=False, transient=True)

    def __enter__(self) -> Progress:
        if self._console.is_terminal:
            self._line.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._console.is_terminal:
            self._line.stop()

    def phase(self, spec: TrialSpec, phase: Phase) -> None:
        """A trial has entered a phase."""
        self._now = (self.label(spec), phase)
        if phase is not Phase.MEASURE:
            self._draw()

    def tick(self) -> None:
        """A second outside a measured window."""
        self._draw()

    def extend(self, total: int) -> None:
        """The study goes on to this many trials."""
        self._total = total

    def extend_by(self, trials: int) -> None:
        """So many trials more, which nobody could foresee."""
        self._total += trials

    def say(self, text: str) -> None:
        """A line of its own, above the live one."""
        self._console.print(Text(text))

    def already_done(self) -> None:
        """A trial of an earlier session needs no run."""
        self._total -= 1

    def finished(self, record: TrialRecord) -> None:
        """A trial's record is on disk."""
        self._done += 1
        kind = record.outcome.kind
        self._failed += kind not in (OutcomeKind.OK, OutcomeKind.OOM, OutcomeKind.NOT_APPLICABLE)
        text = f"{self._done}/{self._total} {self.label(record.spec)}, block {record.spec.block}: {kind}"
        if kind is not OutcomeKind.OK:
            self._console.print(Text(f"{text} ({record.outcome.reason})", style="yellow"))
            self._advise(record.outcome)
        elif not self._console.is_terminal:
            self._console.print(Text(text))

    def _advise(self, outcome: Outcome) -> None:
        """Once in a study, what is to be done: of what no trial was needed for, only where something is missing."""
        launched = outcome.phase is not Phase.PREFLIGHT
        told = outcome.kind is OutcomeKind.UNAVAILABLE or (launched and outcome.kind in ADVISED)
        if told and outcome.text not in self._advice:
            self._advice.add(outcome.text)
            self._console.print(Text(f"    {outcome.text}"), soft_wrap=True)

    def label(self, spec: TrialSpec) -> str:
        """The condition in the settings that vary, short."""
        return label({**spec.settings}, self._varying)

    def _draw(self) -> None:
        now = time.monotonic()
        if self._console.is_terminal and now - self._drawn >= 1.0:
            self._drawn = now
            self._line.update(Text(self._text(now), no_wrap=True, overflow="ellipsis"), refresh=True)

    def _text(self, now: float) -> str:
        where = f" · {self._now[0]} · {self._now[1]}" if self._now else ""
        failed = f" · {self._failed} failed" if self._failed else ""
        return f"{self._done}/{self._total}{where}{failed} · {self._left(now)}"

    def _left(self, now: float) -> str:
        if not self._done:
            return "time left: not known yet"
        seconds = (now - self._started) / self._done * (self._total - self._done)
        return f"about {seconds / 60:.0f} min left" if seconds > 90 else f"about {seconds:.0f} s left"


def label(settings: dict[str, object], varying: list[str]) -> str:
    """A condition by the settings that vary: "tf_graph, allocation=growth"."""
    said = [key for key in varying if key not in ("framework", "compile") and settings.get(key) is not None]
    rest = [f"{key}={settings[key]}" for key in said]
    return ", ".join([framework_name(str(settings["framework"]), settings.get("compile")), *rest])


def framework_name(framework: str, compile: object) -> str:
    """The level's name in a request: tf_graph is TensorFlow in graph mode."""
    return f"{framework}_graph" if compile == "graph" else framework
