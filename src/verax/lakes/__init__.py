"""Rows and attributions in many Parquet parts, scored part by part."""

from verax.lakes.job import ModelFile, Settings
from verax.lakes.result import LakeScores
from verax.lakes.run import score_lake

__all__ = ["LakeScores", "ModelFile", "Settings", "score_lake"]
