"""One file per figure. A figure is a module with a QUESTION, COLUMNS that it needs of TABLE, and draw(tables).

A figure of compiled evidence says EVIDENCE = "compiled", one of the allocators' replay "modelled", and neither shows
anything measured. It may also have lacking(tables),
which says why there is nothing to see although the columns are there.
"""
