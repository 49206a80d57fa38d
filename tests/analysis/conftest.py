"""Fixtures of the analysis' tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from analysis.figures import gallery


@pytest.fixture(scope="module")
def svg_only() -> Iterator[None]:
    """Figures as SVG only: all formats are tested with the figures, and would take most of the time elsewhere."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gallery, "METADATA", {"svg": gallery.METADATA["svg"]})
        yield
