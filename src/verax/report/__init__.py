"""A finished study as pages and figures: one HTML report that works offline, and the paper's figures as SVG."""

try:
    from verax.report.page import write_report
    from verax.report.paper import write_figures
except ModuleNotFoundError as error:
    if error.name is not None and error.name.split(".")[0] == "verax":
        raise
    packages = "altair vl-convert-python matplotlib jinja2 polars pillow"
    raise ImportError(f"verax.report needs {error.name}: pip install {packages}") from error

__all__ = ["write_figures", "write_report"]
