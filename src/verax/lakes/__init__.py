"""Rows and attributions in many Parquet parts, scored part by part."""
