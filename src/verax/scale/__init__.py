"""Large inputs: Parquet lakes and monitoring over time."""
