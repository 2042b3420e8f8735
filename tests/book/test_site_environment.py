"""What `slurm/environment.sh` makes of `site.env`: Python, container or modules, caches."""

import shutil
import subprocess
from pathlib import Path

import pytest
from processes import run

ROOT = Path(__file__).parents[2]
SHOW = 'set -euo pipefail; home=$1; . "$home/slurm/environment.sh"; echo "python=$python"; env'


def sourced(folder: Path, site: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Source the file as a script would, with these settings of the site and this environment."""
    bash = shutil.which("bash")
    assert bash is not None
    (folder / "site.env").write_text(site)
    env = {"PATH": "/usr/bin:/bin", "DTLIB_SITE": str(folder / "site.env"), **env}
    return run(bash, "-c", SHOW, "show", ROOT, env=env, timeout=20)


def variables(folder: Path, site: str, **env: str) -> dict[str, str]:
    done = sourced(folder, site, **env)
    assert done.returncode == 0, done.stderr
    return dict(line.partition("=")[::2] for line in done.stdout.splitlines())


@pytest.mark.parametrize(("site", "python"), [
    ("", f"{ROOT}/.venv/bin/python"),
    ("DTLIB_IMAGE=/x.sif", f"{ROOT}/docker/apptainer-python"),
    ("DTLIB_PYTHON=/env/bin/python", "/env/bin/python"),
])  # fmt: skip
def test_which_python(tmp_path: Path, site: str, python: str) -> None:
    assert variables(tmp_path, site)["python"] == python


def test_hugging_face_is_offline_in_a_job_unless_told_otherwise(tmp_path: Path) -> None:
    site = "DTLIB_DATA=/data"
    assert "HF_HUB_OFFLINE" not in variables(tmp_path, site)
    found = variables(tmp_path, site, SLURM_JOB_ID="7")
    assert (found["HF_HUB_OFFLINE"], found["HF_HOME"]) == ("1", "/data/huggingface")
    site += "\nHF_HUB_OFFLINE=0\nHF_HOME=/hub"
    found = variables(tmp_path, site, SLURM_JOB_ID="7")
    assert (found["HF_HUB_OFFLINE"], found["HF_HOME"]) == ("0", "/hub")


def test_modules_are_loaded_in_a_job_alone(tmp_path: Path) -> None:
    init = tmp_path / "init.sh"
    init.write_text('module() { [ "$2" != none ] || return 1; export LOADED="$*$UNSET_AS_IS"; }\n')
    site = f'DTLIB_MODULES="cuda nccl"\nDTLIB_MODULES_INIT={init}'
    assert "LOADED" not in variables(tmp_path, site)
    assert variables(tmp_path, site, SLURM_JOB_ID="7")["LOADED"] == "load cuda nccl"
    failed = sourced(tmp_path, site.replace("cuda nccl", "none"), SLURM_JOB_ID="7")
    assert failed.returncode == 69
    assert "`module load none` failed on " in failed.stderr


def test_ranks_that_a_script_starts_share_a_hash_seed(tmp_path: Path) -> None:
    assert variables(tmp_path, "")["PYTHONHASHSEED"] == "0"
    assert variables(tmp_path, "PYTHONHASHSEED=7")["PYTHONHASHSEED"] == "7"
