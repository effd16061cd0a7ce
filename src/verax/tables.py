"""Mixed tables: problems whose features are the columns of a data frame."""

from verax.problem.tables import problem

__all__ = ["problem"]
