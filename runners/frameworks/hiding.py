"""Keeping TensorFlow off the GPU in a trial of another framework.

A page may use TensorFlow's input pipeline in a JAX trial. TensorFlow would then take most of the GPU's memory at its
first operation, and JAX would fail for want of it, often with an error of cuBLAS (google/flax issue 445). No variable
hides GPUs from TensorFlow alone, so they are hidden by its own call, at the end of its import.
"""

from __future__ import annotations

import importlib.abc
import importlib.util
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType

from runners.faults import TrialFault

TENSORFLOW = "tensorflow"


def hide_gpus_from_tensorflow() -> None:
    """Hide all GPUs from TensorFlow, now if it is imported, else as soon as it is.

    Raises:
        TrialFault: config, where TensorFlow has already opened its devices.
    """
    if TENSORFLOW in sys.modules:
        _hide(sys.modules[TENSORFLOW])
    elif not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


def _hide(tensorflow: ModuleType) -> None:
    try:
        tensorflow.config.set_visible_devices([], "GPU")
    except RuntimeError as error:
        raise TrialFault(
            "config",
            "TensorFlow holds the GPU",
            f"the page has run TensorFlow before this trial opened its device, so TensorFlow holds the GPU ({error}). "
            "Run it inside inputs() or the step instead.",
        ) from error


class _Finder(importlib.abc.MetaPathFinder):
    """Finds TensorFlow as every other finder would, and has `_hide` run at the end of its import."""

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None = None,  # noqa: ARG002 - the interface's
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> ModuleSpec | None:
        if fullname != TENSORFLOW:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader)
        return spec


class _Loader(importlib.abc.Loader):
    def __init__(self, loader: importlib.abc.Loader) -> None:
        self._loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        _hide(module)
