"""Run a script that a test writes, as a user would."""

import os
import subprocess
from pathlib import Path

from processes import python

HERE = Path(__file__).parent


def run_script(folder: Path, text: str, *command: str) -> subprocess.CompletedProcess[str]:
    script = folder / "script.py"
    script.write_text(text)
    path = f"{HERE}{os.pathsep}{HERE.parent}"  # the checkout that is tested, whatever is installed
    return python(*command, script, cwd=folder, env={**os.environ, "PYTHONPATH": path})
