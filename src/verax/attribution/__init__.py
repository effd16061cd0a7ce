"""Attribution methods as values: configurations that are computed alone or as families that share model evaluations."""

from verax.attribution.attention_rollout import AttentionRollout
from verax.attribution.base import METHODS, Attribution, Attributions, families, stream
from verax.attribution.deeplift_shap import DeepLiftSHAP
from verax.attribution.family import Family, Piece, Place
from verax.attribution.gradient import Gradient, SmoothGrad, VarGrad
from verax.attribution.grid import grid
from verax.attribution.guided_backprop import GuidedBackprop
from verax.attribution.integrated_gradients import IntegratedGradients
from verax.attribution.kernel_shap import KernelShap
from verax.attribution.lime_image import LimeImage
from verax.attribution.lime_tabular import LimeGroups, LimeTabular
from verax.attribution.occlusion import Occlusion
from verax.attribution.permutation_shap import PermutationShap
from verax.attribution.references import Edges, Random
from verax.attribution.segmentation import Quickshift, Slic
from verax.attribution.tree_shap import TreeShap
from verax.scoring.meter import Rows

__all__ = [
    "METHODS",
    "AttentionRollout",
    "Attribution",
    "Attributions",
    "DeepLiftSHAP",
    "Edges",
    "Family",
    "Gradient",
    "GuidedBackprop",
    "IntegratedGradients",
    "KernelShap",
    "LimeGroups",
    "LimeImage",
    "LimeTabular",
    "Occlusion",
    "PermutationShap",
    "Piece",
    "Place",
    "Quickshift",
    "Random",
    "Rows",
    "Slic",
    "SmoothGrad",
    "TreeShap",
    "VarGrad",
    "families",
    "grid",
    "stream",
]
