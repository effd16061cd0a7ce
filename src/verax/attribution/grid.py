"""The paper's configurations of every method."""

from collections.abc import Iterator
from itertools import product
from typing import Literal, get_args

from verax.attribution.base import Attribution, Modality
from verax.attribution.deeplift_shap import DeepLiftSHAP
from verax.attribution.gradient import Gradient, SmoothGrad, VarGrad
from verax.attribution.guided_backprop import GuidedBackprop
from verax.attribution.integrated_gradients import IntegratedGradients, PathBaseline
from verax.attribution.kernel_shap import KernelShap
from verax.attribution.lime_image import Distance, LimeImage, Replacement
from verax.attribution.lime_tabular import LimeGroups, LimeTabular
from verax.attribution.occlusion import Occlusion
from verax.attribution.permutation_shap import PermutationShap
from verax.attribution.references import Edges, Random
from verax.attribution.segmentation import Quickshift, Segmenter, Slic
from verax.attribution.tree_shap import TreeShap
from verax.core.arguments import checked_count, checked_flag

BASELINES: tuple[PathBaseline, ...] = ("min", "mean", "median", "max")
REPLACEMENTS: tuple[Replacement, ...] = ("segment", "image", "dataset")
NOISE = (0.01, 0.1, 0.25, 0.5, 1.0)
LABELS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
TABULAR_ALPHAS = (0.000055, 0.0001, 0.00055, 0.001, 0.0055, 0.01, 0.055, 0.1, 0.55)
TABULAR_WIDTHS = (0.25, 0.375, 0.5, 0.625, 0.75, 0.875, 1.0, 1.125, 1.25)
BUDGETS = (64, 256, 1024)
IMAGE_ALPHAS = (0.00055, 0.001, 0.0055, 0.01, 0.055, 0.1, 0.55, 1.0)
IMAGE_WIDTHS = (0.125, 0.25, 0.375, 0.5)


def grid(
    modality: Modality, *, scale_kernel: bool = False, distance: Distance = "masks", random_seeds: int = 1
) -> list[Attribution]:
    """The configurations that the paper compares, in an order that does not change.

    There are 775 for ``"tabular"`` and 1,598 for ``"image"``. Two models of each kind make 2 x 775 + 2 x 1,598 = 4,746
    explanations. The paper counts 4,744: on its two linear models Guided Backpropagation is the gradient again, which
    leaves that many distinct ones.

    Args:
        modality: The kind of data, ``"tabular"`` or ``"image"``.
        scale_kernel: Whether LIME's kernel widths on tables are times the root of the number of features, as in the
            lime package. The paper does not say.
        distance: What LIME's kernel on images compares, ``"masks"`` as the lime package or ``"inputs"`` as Captum.
        random_seeds: Seeds of each of the two random attributions. The paper has one of each, which says little about
            chance.

    Example:
        >>> len(grid("tabular")), len(grid("image")), len(grid("tabular", random_seeds=50))
        (775, 1598, 873)
    """
    checked_flag("scale_kernel", scale_kernel)
    seeds = range(checked_count("random_seeds", random_seeds))
    if modality not in get_args(Modality):
        raise ValueError(f'modality: expected "tabular" or "image", got {modality!r}.')
    if modality == "tabular":
        return [*_gradients(), *_deep_lift_shap(1024), *_lime_tabular(scale_kernel), *_random(seeds)]
    return [*_gradients(), *_deep_lift_shap(128), *_lime_image(distance), *_random(seeds), *_edges()]


def removals(modality: Modality) -> list[Attribution]:
    """Configurations beyond the paper's, of methods that remove features and need no gradients.

    Args:
        modality: The kind of data, ``"tabular"`` or ``"image"``.

    Example:
        >>> len(removals("tabular"))
        37
    """
    methods: list[Attribution] = [Occlusion("leave_one_out"), Occlusion("keep_one_in")]
    methods += [kind(samples) for kind in (KernelShap, PermutationShap) for samples in BUDGETS]
    settings = product((0.0001, 0.01, 1.0), (0.25, 0.5, 1.0), BUDGETS)
    methods += [LimeGroups(alpha, width, samples) for alpha, width, samples in settings]
    methods += [TreeShap(interventional=False), TreeShap(interventional=True)]
    return [method for method in methods if modality in method.modalities]


def _gradients() -> Iterator[Attribution]:
    yield Gradient()
    yield GuidedBackprop()
    for baseline, multiply in product(BASELINES, (True, False)):
        yield IntegratedGradients(baseline, multiply)
    yield from (SmoothGrad(sigma) for sigma in NOISE)
    yield from (VarGrad(sigma) for sigma in NOISE)


def _deep_lift_shap(samples: int) -> Iterator[Attribution]:
    backgrounds: tuple[float | Literal["random"], ...] = (*LABELS, "random")
    for background, multiply in product(backgrounds, (True, False)):
        yield DeepLiftSHAP(background, multiply, samples)


def _lime_tabular(scale_kernel: bool) -> Iterator[Attribution]:
    for sigma, samples, width, alpha in product((0.1, 0.5, 1.0), (64, 256, 1024), TABULAR_WIDTHS, TABULAR_ALPHAS):
        yield LimeTabular(alpha, width, sigma, samples, scale_kernel=scale_kernel)


def _lime_image(distance: Distance) -> Iterator[Attribution]:
    segmenters: list[Segmenter] = [Quickshift(cut, s) for s in (0.0, 4.0) for cut in (5.0, 7.5, 10.0, 200.0)]
    segmenters += [Slic(count, s) for s in (0.0, 4.0) for count in (48, 64, 96, 128)]
    settings = product(segmenters, REPLACEMENTS, IMAGE_WIDTHS, IMAGE_ALPHAS)
    for segmenter, replacement, width, alpha in settings:
        yield LimeImage(alpha, width, replacement, segmenter, distance=distance)


def _random(seeds: range) -> Iterator[Attribution]:
    yield from (Random(constant, seed) for seed in seeds for constant in (True, False))


def _edges() -> Iterator[Attribution]:
    blurs = (0.0, 2.0, 4.0, 8.0)
    yield from (Edges("sobel", blur=blur) for blur in blurs)
    yield from (Edges("canny", smoothing, blur) for smoothing, blur in product((1.0, 2.0, 4.0), blurs))
