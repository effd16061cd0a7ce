"""From attributions to perturbed inputs to scores: baselines, order, the guided experiment, keyed noise."""
