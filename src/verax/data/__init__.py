"""Data sets from files and small ones that ship: rows with labels and a split."""
