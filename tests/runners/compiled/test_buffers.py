"""Timeline and largest buffers, from a text small enough to add up by hand."""

from __future__ import annotations

from pathlib import Path

from runners.compiled import buffers
from runners.records import Buffer

# Laid out as XLA writes it: `grown` begins in the memory of `scratch` just as that one ends.
ASSIGNMENT = """BufferAssignment:
allocation 0: size 400, parameter 0, shape |f32[100]| at ShapeIndex {}:
 value: <1 input @0> (size=400,offset=0): f32[100]{0}
allocation 1: size 4, thread-local:
 value: <9 add.1 @0> (size=4,offset=0): f32[]
allocation 2: size 100, maybe-live-out:
 value: <2 result{0} @0> (size=100,offset=0): f32[25]{0}
allocation 3: size 300, page 0, preallocated-temp:
 value: <3 scratch @0> (size=200,offset=0): f32[50]{0}
 value: <4 grown @0> (size=200,offset=0): f32[50]{0}
 value: <5 other @0> (size=100,offset=200): f32[25]{0}
"""
RANGES = """HloLiveRange (max 5):
  InstructionSequence:
    0:input
  BufferLiveRange:
    input{}:0-5
    scratch{}:1-3
    grown{}:3-4
    other{}:2-2
    result{0}:4-5
  Live ranges at 2 (peak):
    input: 400 bytes
"""


def test_the_timeline_counts_memory_that_is_handed_over_once() -> None:
    timeline, largest = buffers.from_text(ASSIGNMENT, RANGES)
    assert timeline == [400, 600, 700, 600, 700, 500]
    assert largest[0] == Buffer("input", 400, "argument")
    assert Buffer("result{0}", 100, "output") in largest and Buffer("other", 100, "temp") in largest
    assert "add.1" not in {one.name for one in largest}


def test_without_live_ranges_there_is_no_timeline() -> None:
    timeline, largest = buffers.from_text(ASSIGNMENT, "")
    assert timeline is None and len(largest) == 5


def test_a_long_timeline_keeps_its_peak() -> None:
    ranges = "\n".join(f"    input{{}}:{place}-{place}" for place in range(1000)) + "\n    scratch{}:777-777\n"
    timeline, _ = buffers.from_text(ASSIGNMENT, ranges)
    assert timeline is not None and len(timeline) == buffers.POINTS
    assert max(timeline) == 600


def test_the_largest_assignment_of_a_dump_is_the_module(tmp_path: Path) -> None:
    (tmp_path / "module_1.step.cpu-buffer-assignment.txt").write_text(ASSIGNMENT)
    (tmp_path / "module_1.step.cpu-live-range.txt").write_text(RANGES)
    (tmp_path / "module_0.helper.cpu-buffer-assignment.txt").write_text("BufferAssignment:\n")
    assert buffers.from_dump(tmp_path)[0] == [400, 600, 700, 600, 700, 500]
    assert buffers.from_dump(tmp_path / "none") == (None, None)
