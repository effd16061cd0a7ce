"""Problems from files: a model file or folder and rows or texts on disk, checked as one; what the command line uses."""

from verax.problem.files.description import ProblemFiles, check_model
from verax.problem.files.opening import attributions_of, open_explained, open_problem

__all__ = ["ProblemFiles", "attributions_of", "check_model", "open_explained", "open_problem"]
