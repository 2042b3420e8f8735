"""Run a script that a test writes, as a user would."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def run_script(folder: Path, text: str, *command: str) -> subprocess.CompletedProcess[str]:
    script = folder / "script.py"
    script.write_text(text)
    return subprocess.run(
        [sys.executable, *command, str(script)], capture_output=True, text=True, timeout=120,
        cwd=folder, env={**os.environ, "PYTHONPATH": str(HERE)},
    )  # fmt: skip
