"""Answer the open questions of the Directed Prediction Change: the tables and figures of the page.

``python scripts/open_questions.py HELOC --demo DEMO [--isic ISIC]`` reads models and inputs of finished studies
(``verax study run paper-heloc``, ``demo``, ``paper-isic``). It takes some minutes without ISIC.
"""

import argparse
from pathlib import Path

from adaptive_rows import compare_adaptive
from answers import Answers
from conflicts import compare_rules
from falsehoods import compare_falsehoods, draw_three, find_peaks, show_limits
from local_perturbations import draw_distances, draw_epsilon, draw_shares
from study_subjects import subjects

from verax.report.html import fixed_style

_SIZE = 9  # points
PIXELS = 64  # of the digits, which can be removed one by one


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("heloc", type=Path, nargs="?", help="directory of the study of HELOC")
    parser.add_argument("--demo", type=Path, help="directory of the demo, for the digits")
    parser.add_argument("--isic", type=Path, help="directory of the study of ISIC")
    parser.add_argument("--out", type=Path, default=Path("docs/figures/open-questions"))
    parser.add_argument("--results", type=Path, default=Path("docs/results/open-questions"), help="the tables' folder")
    parser.add_argument("--inputs", type=int, help="first inputs of each study (default: all)")
    parser.add_argument("--limited", type=int, default=32, help="inputs whose limits are searched (default 32)")
    parser.add_argument("--rows", type=int, default=2**20, help="model rows for one search of limits (default 2^20)")
    parser.add_argument("--device", default="cpu", help="where image models run")
    given = parser.parse_args()
    if not (given.heloc or given.demo or given.isic):
        parser.error("name the directory of at least one study")
    tables = subjects(given.heloc, "tabular", given.inputs) if given.heloc else []
    images = [
        subject
        for folder in (given.demo, given.isic)
        if folder is not None
        for subject in subjects(folder, "image", given.inputs, given.device)
    ]
    digits = [subject for subject in images if subject.finest == PIXELS]
    answers = Answers(given.out, given.results)
    with fixed_style(_SIZE):
        draw_three(answers)
        compare_falsehoods([*tables, *images], answers)
        if images:
            compare_rules(images, answers)
        if digits:
            compare_adaptive(digits, answers)
        if tables:
            draw_epsilon(tables, answers)
            draw_distances(tables, answers)
            find_peaks(tables, answers)
            show_limits(tables, answers, given.limited, given.rows)
            draw_shares(tables, answers, given.limited, given.rows)


if __name__ == "__main__":
    main()
