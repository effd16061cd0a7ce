"""Problems from files: a model file or folder and rows or texts on disk, checked as one; what the command line uses."""

from verax.problem.files.opening import attributions_of, open_explained, open_problem
from verax.problem.files.tables import ProblemFiles, check_model

__all__ = ["ProblemFiles", "attributions_of", "check_model", "open_explained", "open_problem"]
