"""One file per figure. A figure is a module with a QUESTION, COLUMNS that it needs of TABLE, and draw(tables).

It may also have lacking(tables), which says why there is nothing to see although the columns are there.
"""
