"""What a language model need not read twice: a fixed beginning of all prompts, and what a cache of more would spare.

``python benchmarks/text_prefix.py`` needs ``verax[text]``. The first table times PC of prompts behind a fixed text
(``verax.text.generation(..., prefix=...)``) with the cache of keys and values and without, in one run; scores are
compared. The second counts, for the removal orders of attributions of a trained model, which share of all tokens could
be spared in a causal model without any fixed text: of rows that share the prompt's own beginning up to the first
removed token, and at the very most, of all rows of a prompt that begin alike (each beginning computed once, whatever it
takes to arrange that).
"""

import itertools
from functools import partial
from statistics import median
from typing import Any

import common
import torch
import transformers
from torch import Tensor

import verax
from verax import attribution as methods
from verax.problem.text.example import small_tokenizer
from verax.text import TextInputs, embedded, per_token

common.PACKAGES = ("torch", "numpy", "transformers")
PREFIXES = (16, 64, 192)  # words of the fixed text
CAPITALS = {"france": "paris", "italy": "rome", "norway": "oslo", "spain": "madrid", "japan": "tokyo", "peru": "lima"}
TONES = {"greetings": "madam", "hey": "mate"}
FILLERS = ("i was wondering", "it is raining", "no hurry")
ASKED = tuple(itertools.product(TONES, FILLERS, CAPITALS))
PROMPTS = [f"{tone} , {filler} , what is the capital of {country} ?" for tone, filler, country in ASKED]
ANSWERS = [f"{CAPITALS[country]} , {TONES[tone]}" for tone, _, country in ASKED]
WORDS = [f"w{number}" for number in range(50)]


def language_model(tokenizer: Any, width: int, layers: int) -> Any:
    config = transformers.GPT2Config(
        vocab_size=len(tokenizer),
        n_embd=width,
        n_layer=layers,
        n_head=4,
        initializer_range=0.1,
        n_positions=256,
        bos_token_id=tokenizer.cls_token_id,
        eos_token_id=tokenizer.pad_token_id,
    )
    torch.manual_seed(0)
    return transformers.GPT2LMHeadModel(config).eval()


def trained(tokenizer: Any, steps: int) -> Any:
    """One that knows the capitals and matches the tone."""
    model = language_model(tokenizer, 32, 2)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    pairs = [
        (tokenizer(prompt)["input_ids"], tokenizer(answer, add_special_tokens=False)["input_ids"])
        for prompt, answer in zip(PROMPTS, ANSWERS, strict=True)
    ]
    ids = [torch.tensor(prompt + answer) for prompt, answer in pairs]
    labels = [torch.tensor([-100] * len(prompt) + answer) for prompt, answer in pairs]
    rows, wanted = (torch.nn.utils.rnn.pad_sequence(one, True, pad) for one, pad in ((ids, 0), (labels, -100)))
    for _ in range(steps):
        optimizer.zero_grad()
        model(rows, labels=wanted).loss.backward()
        optimizer.step()
    return model


def timed(options: Any, tokenizer: Any, words: int) -> dict[str, Any]:
    """PC behind a fixed text of so many words, with the cache and without."""
    model = language_model(tokenizer, 128, 4)
    count = 2 if options.quick else 6
    prefix = " ".join(itertools.islice(itertools.cycle(WORDS), words)) + " "
    problem = verax.text.generation(model, tokenizer, PROMPTS[:count], ANSWERS[:count], prefix=prefix)
    score: Any = problem.scorer.adapter.module
    given = {"random": torch.rand(problem.inputs.shape, generator=torch.Generator().manual_seed(0))}
    tokens = [0]
    hook = model.get_input_embeddings().register_forward_pre_hook(
        lambda part, args: tokens.append(tokens.pop() + args[0].numel())
    )

    def work(usable: bool) -> Any:
        score.shared.usable, tokens[0] = usable, 0
        anew = problem.with_model(problem.scorer)  # whose unperturbed rows are scored in the call
        return verax.evaluate(anew, given, ["pc"])["pc"]

    cases = {"without": partial(work, False), "with": partial(work, True)}
    results = {name: (one(), tokens[0]) for name, one in cases.items()}
    difference = (results["with"][0].morf["random"] - results["without"][0].morf["random"]).abs().max()
    if difference > 1e-4:
        raise SystemExit(f"Scores with and without the cache differ by {difference}.")
    seconds = common.interleaved(cases, options.repeats)
    hook.remove()
    return {
        "prefix": words,
        "length": problem.inputs.shape[1],
        "rows": results["with"][0].rows,
        "tokens": {name: found[1] for name, found in results.items()},
        "difference": float(difference),
        "seconds": seconds,
    }


def attributions(problem: verax.Problem) -> dict[str, Tensor]:
    """Those that somebody would compare."""
    vectors = embedded(problem)
    return {
        "occlusion": methods.Occlusion()(problem),
        "KernelShap": methods.KernelShap(128)(problem),
        "integrated gradients": per_token(methods.IntegratedGradients()(vectors)),
        "gradient, norm": per_token(methods.Gradient()(vectors), "norm"),
        "random": methods.Random()(problem),
    }


def removals(ids: list[int], places: list[int], instead: int, order: list[int]) -> set[tuple[int, ...]]:
    """All rows of one removal order, one token at a time, from both ends."""
    found = set()
    for ordered in (order, order[::-1]):
        row = list(ids)
        found.add(tuple(row))
        for place in ordered:
            row[places[place]] = instead
            found.add(tuple(row))
    return found


def spared(ids: list[int], rows: set[tuple[int, ...]]) -> tuple[int, int, int]:
    """Tokens of some rows of one prompt; those of the prompt's own beginning; those of any beginning seen before."""
    own = sum(next((place for place, one in enumerate(row) if one != ids[place]), len(row)) for row in rows)
    distinct = len({row[: length + 1] for row in rows for length in range(len(row))})
    whole = len(ids) * len(rows)
    return whole, own, whole - distinct


def shares(inputs: TextInputs, given: dict[str, Tensor]) -> dict[str, dict[str, float]]:
    """The share of tokens that could be spared, by attribution and for all in one call."""
    totals: dict[str, list[int]] = {}
    for number in range(len(inputs)):
        ids = inputs.values[number][inputs.present[number]].tolist()
        places = [place for place, feature in enumerate(inputs.features[number].tolist()) if feature >= 0]
        together: set[tuple[int, ...]] = set()
        for name, values in given.items():
            order = values[number][places].argsort(descending=True, stable=True).tolist()
            rows = removals(ids, places, inputs.baselines, order)
            together |= rows
            totals[name] = [sum(pair) for pair in zip(totals.get(name, (0, 0, 0)), spared(ids, rows), strict=True)]
        whole = spared(ids, together)
        totals["all five"] = [sum(pair) for pair in zip(totals.get("all five", (0, 0, 0)), whole, strict=True)]
    return {
        name: {"tokens": whole, "own beginning": own / whole, "any beginning": alike / whole}
        for name, (whole, own, alike) in totals.items()
    }


def main() -> None:
    options = common.arguments(__doc__)
    common.print_header("What a language model need not read twice")
    tokenizer = small_tokenizer(*PROMPTS, *ANSWERS, " ".join(WORDS))
    speeds = [timed(options, tokenizer, words) for words in PREFIXES]
    table = []
    for one in speeds:
        low, middle, high = common.ratios(one["seconds"]["without"], one["seconds"]["with"])
        rates = [f"{one['rows'] / median(one['seconds'][name]):,.0f}" for name in ("without", "with")]
        fewer = one["tokens"]["without"] / one["tokens"]["with"]
        table.append(
            (f"{one['prefix']} of {one['length']}", *rates, f"{middle:.1f} ({low:.1f} to {high:.1f})", f"{fewer:.1f}")
        )
    print("PC behind a fixed text, a GPT-2 of width 128 and 4 layers\n")
    common.print_table(("fixed tokens", "rows/s without", "rows/s with", "times as fast", "times fewer tokens"), table)
    print(f"\nLargest difference between scores: {max(one['difference'] for one in speeds):.1e}\n")
    model = trained(tokenizer, 5 if options.quick else 150)
    problem = verax.text.generation(model, tokenizer, PROMPTS, ANSWERS)
    assert isinstance(problem.rows, TextInputs)
    found = shares(problem.rows, attributions(problem))
    print("Without a fixed text: share of tokens that could be spared\n")
    common.print_table(
        ("removal order of", "own beginning", "any beginning, at most"),
        [(name, f"{one['own beginning']:.0%}", f"{one['any beginning']:.0%}") for name, one in found.items()],
    )
    print(f"\n{common.write_results('text_prefix', options, speeds=speeds, shares=found)}")


if __name__ == "__main__":
    main()
