"""Compiled evidence: lower a step in its framework's own process, compile it for a chip that need not be there.

A trial of compiled evidence is the framework's process (trial.py) and, below it, one compiler process (`python -m
runners.compiled`, __main__.py) on the study's own interpreter, which holds JAX whatever the framework's holds. The
compiler starts first and imports while the framework lowers. The supervisor sees one process tree.
"""
