"""Which metric can be trusted: cases with known truth, trials, and `verax.audit`."""
