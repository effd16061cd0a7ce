"""The README's example runs as it stands."""

import re
import subprocess
import sys
from pathlib import Path

README = Path(__file__).parents[1] / "README.md"


def test_the_example_runs_and_is_short():
    (example,) = re.findall(r"```python\n(.*?)```", README.read_text(), flags=re.DOTALL)
    assert len(example.splitlines()) <= 15
    found = subprocess.run([sys.executable, "-c", example], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
    assert "tensor" in found.stdout
