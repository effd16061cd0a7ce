"""Rows and attributions in many Parquet files, joined by key and scored in batches, on this machine or on Ray."""

from verax.core.ray_engine import Cluster
from verax.scale.run import score_lake
from verax.scale.scoring import BatchScorer
from verax.scale.store import LakeScores

__all__ = ["BatchScorer", "Cluster", "LakeScores", "score_lake"]
