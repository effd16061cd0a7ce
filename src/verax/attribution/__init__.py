"""Attribution methods as values: configurations that are computed alone or as families that share model evaluations."""

from verax.attribution.base import (
    Attribution,
    Attributions,
    Explained,
    Family,
    Given,
    Piece,
    Place,
    Rows,
    attribute,
    families,
    stream,
)
from verax.attribution.gradient import Gradient
from verax.attribution.grid import grid
from verax.attribution.guided import GuidedBackprop
from verax.attribution.lime import LimeTabular
from verax.attribution.lime_image import LimeImage
from verax.attribution.noisy import SmoothGrad, VarGrad
from verax.attribution.path import IntegratedGradients
from verax.attribution.reference import Edges, Random
from verax.attribution.segmentation import Quickshift, Slic
from verax.attribution.shap import DeepLiftSHAP

__all__ = [
    "Attribution",
    "Attributions",
    "DeepLiftSHAP",
    "Edges",
    "Explained",
    "Family",
    "Given",
    "Gradient",
    "GuidedBackprop",
    "IntegratedGradients",
    "LimeImage",
    "LimeTabular",
    "Piece",
    "Place",
    "Quickshift",
    "Random",
    "Rows",
    "Slic",
    "SmoothGrad",
    "VarGrad",
    "attribute",
    "families",
    "grid",
    "stream",
]
