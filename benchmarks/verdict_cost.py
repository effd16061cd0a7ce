"""What a verdict costs: both questions of ``verax.compare`` beside the bare model on as many rows.

``python benchmarks/verdict_cost.py``

46 attributions of the paper's network on as many inputs as HELOC has validation rows. The comparison may take 322 model
rows per input, however many attributions there are, and should reach 0.85 of the speed of the bare forward over them.
Seconds are of processor time on one thread, so that other processes take none of them.
"""

import time

import common
import torch

import verax

INPUTS, ATTRIBUTIONS, BATCH = 1658, 46, 2048


def main() -> None:
    options = common.arguments(__doc__)
    inputs = 128 if options.quick else INPUTS
    torch.set_num_threads(1)
    common.print_header(f"Verdicts on {ATTRIBUTIONS} attributions of {inputs} inputs, and the bare model")
    model, rows = common.paper_mlp(), common.normal_inputs(inputs)
    stack = common.attributions_like_a_study(model, rows, ATTRIBUTIONS)
    attributions = {f"a{number}": values for number, values in enumerate(stack)}
    scorer = verax.Scorer(model, returns="logits")
    compared = verax.compare(verax.Problem(scorer, rows), attributions)
    per_input = compared.rows / inputs
    every = rows.repeat(compared.rows // inputs + 1, 1)[: compared.rows]
    times = common.interleaved(
        {
            "bare forward": lambda: common.bare_forward(model, every, BATCH),
            "compare": lambda: verax.compare(verax.Problem(scorer, rows), attributions),
        },
        options.repeats,
        time.process_time,
    )
    low, middle, high = common.ratios(times["bare forward"], times["compare"])
    table = [(name, f"{median:.3f}") for name, median in common.medians(times).items()]
    common.print_table(("", "seconds"), table)
    print(f"\n{per_input:.1f} model rows per input; {middle:.2f} of the bare forward ({low:.2f} to {high:.2f})")
    common.write_results("verdict_cost", options, seconds=times, rows_per_input=per_input, share=[low, middle, high])


if __name__ == "__main__":
    main()
