"""Text models as problems."""
