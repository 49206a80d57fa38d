"""Device-memory allocators, replayed: what each would take from the driver for a trace. Nothing is measured.

One file is one allocator or one part of a replay; `analysis.allocator_model` is the way in. Pure Python: no framework.
"""
