"""The attributions of a study: the paper's grid, thinned by method, and others by name."""

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import field_validator

from verax.attribution import METHODS, Attribution, grid
from verax.attribution.base import Modality
from verax.attribution.grid import removals
from verax.attribution.lime_image import Distance
from verax.core.settings import from_dict
from verax.scoring.class_scores import Scale
from verax.study.spec_table import Count, Mistakes, SpecTable, unknown_name


class AttributionsSpec(SpecTable):
    """Which attributions: the paper's grid, all of it or thinned, and any others.

    Attributes:
        grid: Whether to take the grid for the kind of data.
        every: Of LIME's configurations, only every so manieth, the first one included.
        scale_kernel: Whether the grid's kernel widths of LIME on tables are times the root of the number of features.
        lime_distance: What the grid's LIME on images weighs its samples by, ``"masks"`` or ``"inputs"``.
        random_seeds: Seeds of each of the grid's two random attributions. One of each, as in the paper, is a chance
            level that hangs on two draws; 50 make a hundred.
        explained: What methods explain: ``"log_odds"`` of the class, its ``"logit"``, as in the paper, or
            ``"probability"``. For models with one logit, log-odds and logit are the same.
        removals: Whether to take methods that remove features as well, Occlusion, Shapley values and LIME over
            features: they need no gradients and take categories.
        others: Further configurations, each a table with ``method`` and its settings.
    """

    grid: bool = True
    every: Count = 1
    scale_kernel: bool = False
    lime_distance: Distance = "masks"
    random_seeds: Count = 1
    explained: Scale = "log_odds"
    removals: bool = False
    others: tuple[dict[str, Any], ...] = ()

    @field_validator("others", mode="before")
    @classmethod
    def _known(cls, listed: Any) -> Any:
        if not isinstance(listed, list | tuple):
            raise ValueError("expected a list of tables, each with a method")
        mistakes = Mistakes()
        for number, settings in enumerate(listed):
            with mistakes.at(number):
                configuration(settings)
        if mistakes:
            raise mistakes.refusal()
        return tuple(listed)

    def configurations(self, modality: Modality) -> list[Attribution]:
        """The configurations for a kind of data, each once, in the grid's order.

        Example:
            >>> [len(AttributionsSpec(every=every).configurations("tabular")) for every in (1, 10)]
            [775, 119]
        """
        whole = grid(
            modality, scale_kernel=self.scale_kernel, distance=self.lime_distance, random_seeds=self.random_seeds
        )
        chosen = thinned(whole, self.every) if self.grid else []
        chosen += thinned(removals(modality), self.every) if self.removals else []
        chosen += [configuration(settings) for settings in self.others]
        unfit = dict.fromkeys(type(method).__name__ for method in chosen if modality not in method.modalities)
        if unfit:
            verb = "is" if len(unfit) == 1 else "are"
            raise ValueError(f"attributions.others: {' and '.join(unfit)} {verb} not for {modality} data")
        if not chosen:
            raise ValueError("attributions: expected grid = true, removals = true or some others, got none")
        return list(dict.fromkeys(chosen))


def thinned(configurations: Sequence[Attribution], every: int) -> list[Attribution]:
    """All configurations but those of LIME, and of these the first and then every so manieth.

    LIME's are 94 to 96 % of the grid. A number that shares no factor with 2 and 3 visits all values of all settings.
    """
    lime = [method for method in configurations if method.label == "LIME"]
    dropped = set(lime) - set(lime[::every])
    return [method for method in configurations if method not in dropped]


def configuration(settings: Any) -> Attribution:
    """Make a configuration from a table with ``method`` and its settings.

    Example:
        >>> configuration({"method": "IntegratedGradients", "baseline": "max"}).canonical
        "IntegratedGradients(baseline='max', multiply_by_inputs=True, points=64)"
    """
    try:
        kind = METHODS.get(settings.get("method") if isinstance(settings, Mapping) else settings)
    except ValueError as error:
        raise unknown_name(str(error)) from None
    if not isinstance(settings, Mapping):
        raise ValueError(f"expected a table with method, got {settings!r}")
    method: Attribution = from_dict(kind, {name: value for name, value in settings.items() if name != "method"})
    return method
