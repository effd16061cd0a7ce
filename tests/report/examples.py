"""Results to look at: a small classifier of three classes and attributions of its predictions."""

import re
from html.parser import HTMLParser

import torch

import calls
import verax

METRICS = (
    "pc",
    "dpc",
    "infidelity",
    "sensitivity_n",
    verax.metrics.InfidelityUncertainty(verax.metrics.Infidelity(), (20, 40), 4),
)
HOSTILE = "<script>alert('$1 & $2')</script>"


def classifier(features=6, classes=3):
    generator = torch.Generator().manual_seed(0)
    layers = [torch.nn.Linear(features, 12), torch.nn.Tanh(), torch.nn.Linear(12, classes)]
    for layer in layers[::2]:
        layer.weight.data = torch.randn(layer.weight.shape, generator=generator)
        layer.bias.data.zero_()
    return torch.nn.Sequential(*layers)


def rows(*shape, seed=1):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def evaluation(names=("gradient", "noise", HOSTILE), metrics=METRICS, inputs=9, numpy=False, **settings):
    x = rows(inputs, 6)
    attributions = {name: rows(inputs, 6, seed=place + 2) for place, name in enumerate(names)}
    if numpy:
        x, attributions = x.numpy(), {name: one.numpy() for name, one in attributions.items()}
    return calls.evaluate(classifier(), x, attributions, metrics, samples=40 if len(metrics) < 5 else 640, **settings)


class _Cells(HTMLParser):
    """Collects cells as a reader sees them, and every tag."""

    def __init__(self):
        super().__init__()
        self.rows, self.tags, self.open = [], [], False

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")
            self.open = True

    def handle_endtag(self, tag):
        self.open = self.open and tag not in ("td", "th")

    def handle_data(self, data):
        if self.open:
            self.rows[-1][-1] += data


def read_html(text):
    """The rows of a table and the tags that it is made of."""
    parser = _Cells()
    parser.feed(text)
    parser.close()
    return parser.rows, set(parser.tags)


def read_text(text):
    """The rows of an aligned table, without what follows it."""
    lines = text.splitlines()
    starts = [match.start() for match in re.finditer(r"(?:(?<=  )|^)\S", lines[0])]
    ends = [*starts[1:], None]
    return [[line[start:end].strip() for start, end in zip(starts, ends, strict=True)] for line in lines]
