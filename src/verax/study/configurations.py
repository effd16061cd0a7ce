"""From a spec's tables to attribution configurations: the grid, thinned by method, and others by name."""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from verax import attribution
from verax.attribution import Attribution
from verax.attribution.base import Modality

METHODS: dict[str, type[Attribution]] = {
    one.__name__: one
    for one in (
        attribution.Gradient,
        attribution.GuidedBackprop,
        attribution.IntegratedGradients,
        attribution.SmoothGrad,
        attribution.VarGrad,
        attribution.DeepLiftSHAP,
        attribution.LimeTabular,
        attribution.LimeImage,
        attribution.Random,
        attribution.Edges,
    )
}
LIME = (attribution.LimeTabular, attribution.LimeImage)
SEGMENTERS: dict[str, Any] = {"Quickshift": attribution.Quickshift, "Slic": attribution.Slic}


def chosen(modality: Modality, grid: bool, every: int, others: Sequence[Mapping[str, Any]] = ()) -> list[Attribution]:
    """The configurations of a study, each once.

    Args:
        modality: The kind of data.
        grid: Whether the paper's grid is taken.
        every: Of the grid's LIME configurations, every so manieth.
        others: Further ones.

    Example:
        >>> len(chosen("tabular", True, 1)), len(chosen("tabular", True, 10))
        (775, 119)
    """
    found = thinned(attribution.grid(modality), every) if grid else []
    found += [configuration(settings) for settings in others]
    for one in found:
        if modality not in one.modalities:
            raise ValueError(f"attributions.others: {type(one).__name__} is not for {modality} data")
    if not found:
        raise ValueError("attributions: expected grid = true or some others, found neither")
    return list(dict.fromkeys(found))


def thinned(configurations: Sequence[Attribution], every: int) -> list[Attribution]:
    """All configurations but those of LIME, and of these the first and then every so manieth.

    LIME's are 94 to 96 % of the grid. A number that shares no factor with 2 and 3 visits all values of all settings.
    """
    lime = [one for one in configurations if isinstance(one, LIME)]
    dropped = set(lime) - set(lime[::every])
    return [one for one in configurations if one not in dropped]


def configuration(settings: Any) -> Attribution:
    """Make a configuration from a table with ``method`` and its settings.

    Example:
        >>> configuration({"method": "IntegratedGradients", "baseline": "max"}).canonical
        "IntegratedGradients(baseline='max', multiply_by_inputs=True, points=64)"
    """
    if not isinstance(settings, Mapping) or settings.get("method") not in METHODS:
        name = settings.get("method") if isinstance(settings, Mapping) else settings
        raise ValueError(f"method: expected one of {', '.join(METHODS)}, found {name!r}")
    return _made(METHODS[settings["method"]], settings, "method")  # type: ignore[no-any-return]


def _made(kind: Any, settings: Mapping[str, Any], label: str) -> Any:
    given = {name: _read(name, value) for name, value in settings.items() if name != label}
    allowed = [field.name for field in fields(kind)]
    for name in given:
        if name not in allowed:
            raise ValueError(f"{name}: {kind.__name__} has no such setting; it has {', '.join(allowed) or 'none'}")
    return kind(**given)


def _read(name: str, value: Any) -> Any:
    if name == "segmenter":
        if not isinstance(value, Mapping) or value.get("method") not in SEGMENTERS:
            raise ValueError(f"segmenter: expected a table with method {' or '.join(SEGMENTERS)}, found {value!r}")
        return _made(SEGMENTERS[value["method"]], value, "method")
    return tuple(value) if isinstance(value, list) else value
