"""Attributions of a problem, as arrays or as other libraries return them: checked before any work."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from verax.core import noise
from verax.core.arrays import Layout, as_tensor, to_device
from verax.core.shapes import Bool, Float, Int, Shaped
from verax.problem.features import FeatureMap, Grid, Groups, Shape, spread
from verax.problem.inputs import CheckedInputs, check_finite, undirected
from verax.problem.problem import Problem
from verax.problem.replacement import Baseline, Replacement, Rows


def plain_attributions(attributions: Any) -> Any:
    """Arrays in the place of a ``shap.Explanation``, a tuple of Captum's and a list of arrays; the rest as it is."""
    if isinstance(attributions, Mapping):
        return {name: _plain(f"attributions[{name!r}]", value) for name, value in attributions.items()}
    return _plain("attributions", attributions)


def explanations_of(attributions: Any) -> dict[str | None, Any]:
    """Every ``shap.Explanation`` among attributions, by name; under None where it is the only attribution."""
    held = attributions if isinstance(attributions, Mapping) else {None: attributions}
    return {name: value for name, value in held.items() if _is_explanation(value)}


def fitted_attributions(attributions: Any, fit: Callable[[Any], Any]) -> Any:
    """Every attribution as the inputs want it, before it becomes an array."""
    if isinstance(attributions, Mapping):
        return {name: fit(value) for name, value in attributions.items()}
    return fit(attributions)


def _plain(label: str, value: Any) -> Any:
    if _is_explanation(value):
        return value.values
    if isinstance(value, tuple) and hasattr(value, "attributions"):  # what from_explanation gives
        return value.attributions
    if isinstance(value, tuple) and len(value) == 1:  # Captum's answer to inputs in a tuple
        return value[0]
    if not (isinstance(value, list | tuple) and value and all(isinstance(each, Tensor | np.ndarray) for each in value)):
        return value
    shapes = list(dict.fromkeys(tuple(array.shape) for array in value))
    if len(shapes) > 1:
        raise ValueError(
            f"{label}: expected arrays of one shape, got {' and '.join(map(str, shapes))}; attributions of several "
            "input tensors, as Captum gives them, go to verax.interop.captum.prediction_change and its like."
        )
    if all(isinstance(array, Tensor) for array in value):
        return torch.stack([array.detach() for array in value])
    return np.stack([array.detach().cpu().numpy() if isinstance(array, Tensor) else array for array in value])


def _is_explanation(value: Any) -> bool:
    return hasattr(value, "base_values") and hasattr(value, "values")  # a shap.Explanation, without importing shap


_SMALL = 1 << 23  # elements of attributions that may be copied


@dataclass(frozen=True)
class Attributed:
    """A problem with the attributions that are rated: what metrics and experiments work on."""

    problem: Problem  # the model and the rows
    attributions: tuple[Tensor, ...]  # one tensor per attribution, each of the inputs' shape or with one channel
    precision: Float[Tensor, "k 1 1"]  # relative spacing of the numbers of each attribution, as the user gave it
    layout: Layout  # the form in which results go back
    replacement: Replacement  # what removed features become, for metrics that do not say it themselves
    remarks: tuple[str, ...] = ()  # what results say of the call, a sentence each
    of_tracked: frozenset[str] = frozenset()  # names of attributions known to explain the tracked class

    @property
    def removed(self) -> str:
        return self.given.baseline_words if isinstance(self.replacement, Baseline) else self.replacement.short_form

    @property
    def given(self) -> CheckedInputs:
        return self.problem.given

    @property
    def background(self) -> Shaped[Tensor, "m *shape"] | None:
        return self.problem.background

    @property
    def spread(self) -> Float[Tensor, "*shape"] | None:
        return self.problem.spread

    def fitted(self, replacement: Replacement) -> Replacement:
        return self.problem.fitted(replacement)

    @property
    def inputs(self) -> Shaped[Tensor, "n *shape"]:
        return self.given.values

    @property
    def baselines(self) -> Shaped[Tensor, "n *shape"]:
        return self.given.baselines

    @property
    def features(self) -> FeatureMap:
        return self.given.features

    def __len__(self) -> int:
        return len(self.inputs)

    def with_another(self, name: str, values: Float[Tensor, "n *rest"]) -> "Attributed":
        """The same with one more attribution, which the call itself made; values of the others' shape and type."""
        return replace(
            self,
            attributions=(*self.attributions, values.to(self.attributions[0])),
            precision=torch.cat((self.precision, self.precision[:1])),
            layout=replace(self.layout, names=(*self.layout.names, name)),
            of_tracked=self.of_tracked | {name},
        )

    def stacked(self, which: slice, rows: slice) -> Float[Tensor, "k b *rest"]:
        if self._together is not None:
            return self._together[which, rows]
        return torch.stack([attribution[rows] for attribution in self.attributions[which]])

    @cached_property
    def _together(self) -> Tensor | None:
        """All attributions, unless they are large: to gather hundreds of small ones for every block takes long."""
        count = len(self.attributions) * self.attributions[0].numel()
        return torch.stack(self.attributions) if count <= _SMALL else None


@dataclass(frozen=True)
class Task:
    """An attributed problem under one replacement, with the class and the score of each unperturbed input."""

    problem: Attributed  # the rows and their attributions
    target: Int[Tensor, " n"]  # the class or output of each input
    clean: Float[Tensor, " n"]  # its score, unperturbed
    score: str = "class score"  # what that is called
    replacement: Replacement | None = None  # what removed features become, where it is not what the problem says
    draw: int = 0  # which draw of a replacement that is drawn
    # of each unperturbed input, where random perturbations are also followed on the logit
    logits: Float[Tensor, " n"] | None = None

    @property
    def moves(self) -> Replacement:
        return self.problem.fitted(self.replacement or self.problem.replacement)

    def replaced(self, rows: slice, device: torch.device) -> Shaped[Tensor, "b *shape"]:
        """Some inputs with everything removed, on a device: what their removed features become."""
        if isinstance(self.moves, Baseline):
            return to_device(self.problem.baselines[rows], device)
        context = self.context(rows, device)
        fixed = self.problem.given.fixed(rows)
        if fixed is None:
            return self.moves.fill(context)
        held = fixed.to(device).expand(context.values.shape)
        return torch.where(held, context.values, self.moves.fill(context, ~held))

    def removable(self, mask: Bool[Tensor, "m *shape"], owner: Int[Tensor, " m"]) -> Bool[Tensor, "m *shape"]:
        """Leave out of chosen elements those that are never removed, which are in a group all the same."""
        fixed = self.problem.given.fixed(slice(None))
        if fixed is None:
            return mask
        held = fixed.to(mask.device)
        return mask & ~(held[owner] if len(held) > 1 else held)

    def context(self, rows: slice, device: torch.device) -> Rows:
        """Some inputs on a device, with all that replacements may ask for."""
        checked = self.problem.given
        values, baselines = to_device(checked.values[rows], device), to_device(checked.baselines[rows], device)
        still, fixed = undirected(checked, values, baselines), checked.fixed(rows)
        keys = noise.input_keys(values, 0, "replacement", None if fixed is None else fixed.to(device))
        return Rows(values, baselines, self.problem.spread, still, self.problem.background, keys, self.draw)


def attributed(problem: Problem, attributions: Any, replacement: Replacement | None = None) -> Attributed:
    """Check attributions of a problem and bring them into one layout."""
    x, shapes = problem.given.values, _single_shapes(problem.given)
    form, names, arrays = _attribution_list(attributions, x, shapes)
    check_finite(arrays)
    dtypes = [array.dtype for array in arrays.values()]
    dtype = reduce(torch.promote_types, dtypes)
    stack = tuple(_in_layout(array.to(dtype), problem.given) for array in arrays.values())
    if len({attribution.shape for attribution in stack}) > 1:  # where only some have channels, the others are shared
        # out evenly: in float64, in which shares of different numbers differ
        stack = tuple(spread(attribution.double(), tuple(x.shape[1:])) for attribution in stack)
    result_dtype = x.dtype if x.dtype == torch.float64 else torch.float32  # half precision cannot hold the results
    return Attributed(
        problem=problem,
        attributions=stack,
        precision=torch.tensor([torch.finfo(dtype).eps for dtype in dtypes], dtype=torch.float64)[:, None, None],
        layout=Layout(form, names, problem.given.kind, x.device, result_dtype),
        replacement=replacement or problem.replacement,
    )


def _attribution_list(
    attributions: Any, inputs: Tensor, shapes: list[Shape]
) -> tuple[Literal["one", "stack", "dict"], tuple[str, ...], dict[str, Tensor]]:
    if isinstance(attributions, Mapping):
        if not attributions:
            raise ValueError("attributions: expected at least one, got an empty dict.")
        labelled = {f"attributions[{name!r}]": value for name, value in attributions.items()}
        arrays = {label: _with_rows(_numbers(label, value), shapes) for label, value in labelled.items()}
        for label, array in arrays.items():
            if tuple(array.shape) not in shapes:
                raise ValueError(_shape_message(label, array, inputs, shapes, stack=False))
        return "dict", tuple(attributions), arrays
    array = _with_rows(_numbers("attributions", attributions), shapes)
    single, stacked = tuple(array.shape) in shapes, tuple(array.shape[1:]) in shapes and len(array) > 0
    # images of as many channels as there are images, and as many attributions
    if single and stacked and len(array) > 1:
        raise ValueError(
            f"attributions: shape {tuple(array.shape)} can be read as one attribution or as a stack of {len(array)} "
            "without channels; pass one attribution as {name: array}, several as a dict of them or with a channel "
            f"axis, shape (K, {str(shapes[1])[1:]}."
        )
    if single:
        return "one", (), {"attributions": array}
    if stacked:
        return "stack", (), {f"attributions[{place}]": values for place, values in enumerate(array)}
    raise ValueError(_shape_message("attributions", array, inputs, shapes))


def _with_rows(array: Tensor, shapes: list[Shape]) -> Tensor:
    """The attribution of a single input without an axis for rows gets one; any other stays as it is."""
    shape = tuple(array.shape)
    fits = shape in shapes or shape[1:] in shapes
    return array[None] if not fits and (1, *shape) in shapes else array


def _single_shapes(checked: CheckedInputs) -> list[Shape]:
    """Shapes that one attribution may have: where features span channels without them, of groups one value each."""
    features, full = checked.features, tuple(checked.values.shape)
    spans_channels = isinstance(features, Grid) and len(features.cell) > 1 and features.cell[0] == 1
    shapes = [full]
    if spans_channels or (isinstance(features, Groups) and len(full) == 4):
        shapes += [(full[0], 1, *full[2:]), (full[0], *full[2:])]
    if isinstance(features, Groups):
        shapes.append((full[0], features.most))
    return list(dict.fromkeys(shapes))


def _in_layout(values: Tensor, checked: CheckedInputs) -> Tensor:
    """An attribution in the inputs' shape, or with one channel; 0 where an element is never removed."""
    if isinstance(checked.features, Groups) and values.ndim == 2 and values.shape != checked.values.shape:
        return checked.features.spread_out(values)
    shaped = values[:, None] if values.ndim == checked.values.ndim - 1 else values
    fixed = checked.fixed(slice(None))
    if fixed is None:
        return shaped
    return spread(shaped, tuple(checked.values.shape[1:])).masked_fill(fixed.to(shaped.device), 0)


def _numbers(label: str, value: Any) -> Tensor:
    array = as_tensor(label, value)
    if array.is_complex() or array.dtype == torch.bool:
        raise TypeError(f"{label}: expected real numbers, got {array.dtype}.")
    if not array.is_floating_point():
        return array.double()
    return array.float() if array.dtype in (torch.float16, torch.bfloat16) else array


def _shape_message(label: str, array: Tensor, inputs: Tensor, shapes: list[Shape], stack: bool = True) -> str:
    shape, advice = tuple(array.shape), ""
    if shape[:-1] == tuple(inputs.shape):
        advice = (
            "; if its last axis are classes, verax.interop.shap.from_explanation(explanation, target=...) takes one of "
            "them; if embeddings of tokens, verax.text.per_token(attributions) makes one number per token"
        )
    elif shape[1:] == tuple(inputs.shape):
        advice = "; of several arrays give each a name of its own, of one per class take that of the class explained"
    expected = " or ".join(map(str, shapes))
    stacked = f", or a stack (K, {str(shapes[0])[1:]}" if stack else ""
    return (
        f"{label}: shape {shape} does not fit inputs of shape {tuple(inputs.shape)}; "
        f"expected {expected}{stacked}{advice}."
    )
