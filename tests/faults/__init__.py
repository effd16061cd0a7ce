"""Faults of every kind, driven on purpose and counted: kills, failing disks, damaged and swapped files."""
