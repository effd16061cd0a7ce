"""Studies: many configurations on many inputs, planned, run with resumption, stored, verified."""
