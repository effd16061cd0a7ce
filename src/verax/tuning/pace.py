"""How long a round of a search will take, by how long its parts have taken so far."""

from collections.abc import Mapping

from verax.attribution import Attribution


class Pace:
    """Seconds of model rows of each group of methods, and of the metrics; read off every round that was measured.

    What will be computed together costs what its most expensive member does, once. Metrics may share model rows between
    candidates: fewer candidates than before are taken to cost as much, more of them in proportion.

    Example:
        >>> from verax.attribution import Gradient
        >>> pace = Pace()
        >>> pace.explained(Gradient(), rows=3.0, inputs=10, seconds=6.0)  # 0.2 seconds for each model row
        >>> pace.rated(candidates=4, inputs=10, seconds=1.0)
        >>> round(pace.seconds({Gradient(): 5.0}, candidates=8, inputs=100), 3)
        120.0
    """

    def __init__(self) -> None:
        self._per_row: dict[Attribution, float] = {}  # by the first of each group
        self._dearest = 0.0  # rows per input of the most expensive group that was measured
        self._rated: tuple[int, float] | None = None  # candidates, and seconds per input

    def explained(self, leader: Attribution, rows: float, inputs: int, seconds: float) -> None:
        """A group was computed, at so many model rows per input."""
        self._per_row[leader] = seconds / (max(rows, 1.0) * inputs)
        self._dearest = max(self._dearest, rows)

    def rated(self, candidates: int, inputs: int, seconds: float) -> None:
        """The metrics of so many candidates were measured."""
        self._rated = candidates, seconds / inputs

    def seconds(self, groups: Mapping[Attribution, float | None], candidates: int, inputs: int) -> float:
        """Seconds that further inputs will take.

        Args:
            groups: Model rows per input by the first of each group; None where they are not known.
            candidates: How many are rated.
            inputs: How many each of them is measured on.
        """
        if self._rated is None:
            return 0.0
        slowest = max(self._per_row.values(), default=0.0)
        explaining = sum(
            self._per_row.get(leader, slowest) * max(1.0, self._dearest if rows is None else rows)
            for leader, rows in groups.items()
        )
        before, rating = self._rated
        return inputs * (explaining + rating * max(1.0, candidates / before))
