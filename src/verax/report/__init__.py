"""A finished study as pages and figures, and a comparison as a page: HTML files that work offline, figures as SVG."""

from typing import TYPE_CHECKING, Any

from verax.core.packages import optional_package

if TYPE_CHECKING:
    from verax.report.page import write_figures, write_report

__all__ = ["write_figures", "write_report"]


def __getattr__(name: str) -> Any:
    """Import the report of a study when it is asked for: that of a comparison does without its packages."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(optional_package("verax.report.page", "verax[study]", "The report of a study"), name)
