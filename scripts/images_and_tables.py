"""Is DPC's preference for pseudo-local variants weaker on images? The one claim of the paper that needs both studies.

``python scripts/images_and_tables.py HELOC_STUDY ISIC_STUDY --out docs/results/paper/images-and-tables.csv``

``verax study claims HELOC_STUDY ISIC_STUDY`` says the same among all others. Here a study of HELOC is enough that has
no more than the variants and DPC.
"""

import argparse
from pathlib import Path

from verax.core.files import table_bytes, write_atomically
from verax.paper.claims import QUESTIONS, as_frame, as_markdown, claims
from verax.study.results import read_results
from verax.study.study import open_study

CLAIM = "DPC's preference for pseudo-local variants is weaker on images"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("studies", type=Path, nargs="+", help="folders of finished studies")
    parser.add_argument("--out", type=Path, required=True, help="where to write the answer, .csv")
    options = parser.parse_args()
    studies = [read_results(open_study(folder)).tables for folder in options.studies]
    answers = claims(*studies, questions=[question for question in QUESTIONS if question.claim == CLAIM])
    write_atomically(options.out, table_bytes(as_frame(answers), ".csv"))
    print(as_markdown(answers))


if __name__ == "__main__":
    main()
