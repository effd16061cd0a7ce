"""Coalitions by brute force: what an attribution over features should find, written as the definition is."""

from itertools import combinations, permutations
from math import factorial

import numpy as np
import torch


def worths(model, row, baseline, groups, target):
    """The score of every coalition of groups, by the set of those that are kept."""
    names = sorted(one for one in set(groups.flatten().tolist()) if one >= 0)
    found = {}
    for size in range(len(names) + 1):
        for chosen in combinations(range(len(names)), size):
            kept = torch.isin(groups, torch.tensor([names[one] for one in chosen], dtype=groups.dtype)) | (groups < 0)
            with torch.no_grad():
                found[frozenset(chosen)] = float(model(torch.where(kept, row, baseline)[None])[0, target])
    return found


def by_subsets(worth, features):
    """Shapley's formula."""
    values = np.zeros(features)
    for chosen, score in worth.items():
        for one in set(range(features)) - chosen:
            weight = factorial(len(chosen)) * factorial(features - len(chosen) - 1) / factorial(features)
            values[one] += weight * (worth[chosen | {one}] - score)
    return values


def by_permutations(worth, features):
    """The mean contribution over all orders."""
    orders = list(permutations(range(features)))
    values = np.zeros(features)
    for order in orders:
        for place, one in enumerate(order):
            before = frozenset(order[:place])
            values[one] += (worth[before | {one}] - worth[before]) / len(orders)
    return values


class Recorded(torch.nn.Module):
    """A model that keeps the rows that it was asked about."""

    def __init__(self, model):
        super().__init__()
        self.model, self.seen = model, []

    def forward(self, batch):
        self.seen.append(batch.detach().clone())
        return self.model(batch)

    @property
    def rows(self):
        return torch.cat(self.seen)
