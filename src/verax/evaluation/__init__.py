"""From a model, inputs and attributions to results: each distinct experiment run once, whatever number of metrics."""
