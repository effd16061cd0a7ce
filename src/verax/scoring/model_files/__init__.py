"""Model files: those that Verax saves, and those of other libraries."""
