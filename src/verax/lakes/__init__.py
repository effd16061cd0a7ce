"""Rows and attributions in many Parquet files, joined by key and scored in batches, on this machine or on Ray."""

from verax.lakes.result import LakeScores
from verax.lakes.run import score_lake
from verax.lakes.scoring import BatchScorer

__all__ = ["BatchScorer", "LakeScores", "score_lake"]
