"""Intervals, paired comparisons and rank agreement: the only place that computes one."""
