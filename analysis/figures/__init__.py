"""One file per figure. A figure is a module with a QUESTION, COLUMNS that it needs of TABLE, and draw(tables)."""
