"""Attribution methods as values: configurations that are computed alone or as families that share model evaluations."""

from verax.attribution.base import Attribution, Attributions, Explained, Family, Piece, attribute, families, stream
from verax.attribution.gradient import Gradient
from verax.attribution.path import IntegratedGradients

__all__ = [
    "Attribution",
    "Attributions",
    "Explained",
    "Family",
    "Gradient",
    "IntegratedGradients",
    "Piece",
    "attribute",
    "families",
    "stream",
]
