"""One evaluation stays within the modules that CONTRIBUTING names."""

import importlib.util
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
MOST = 35


def test_one_evaluation_visits_no_more_modules_than_contributing_says() -> None:
    spec = importlib.util.spec_from_file_location("visited", ROOT / "scripts" / "visited.py")
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    script.evaluation()  # imports what is imported when it is first used
    modules = {module for module, _ in script.visited(script.evaluation)}
    stated = re.search(r"visits (\d+) modules", (ROOT / "CONTRIBUTING.md").read_text())
    assert stated is not None
    assert len(modules) <= int(stated[1]) <= MOST
