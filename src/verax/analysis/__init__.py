"""What the tables of a study say: summaries, agreement, Pareto sets, comparisons, costs, and the paper's claims.

Pure functions from tables in memory (``verax.analysis.tables``) to tables or small values. Nothing here touches files.
"""
