"""`docker/node/`: the health check with programs in the place of nvidia-smi, journalctl and Slurm,
and the units by systemd's own checker."""

import json
import os
import shutil
import sys
from pathlib import Path

import pytest
from processes import run

HERE = Path(__file__).resolve().parents[2] / "docker" / "node"
UNITS = sorted(path.name for path in HERE.glob("dtlib-*.*") if path.suffix != ".conf")
# What nvidia-smi prints for the fields that are asked for, of a healthy H100.
GPU = "{n}, 00000000:{bus}:00.0, 0, 0, 16, 16, Not Active, Not Active, 41"
PROGRAMS = {
    "nvidia-smi": '[ -f "$HERE/gpus" ] || exit 9; cat "$HERE/gpus"',
    "journalctl": 'cat "$HERE/kernel"',
    "findmnt": '[ "${@: -1}" != /gone ]',
    "df": 'printf "Use%%\\n %s%%\\n" "$(cat "$HERE/used")"',
    "chronyc": 'echo "A,10.0.0.1,2,1.0,$(cat "$HERE/skew"),0,0,0,0,0,0,0,64,Normal"',
    "scontrol": 'printf "%s\\n" "$@" >"$HERE/drained"; exit "$(cat "$HERE/slurm")"',
}


@pytest.fixture
def node(tmp_path: Path) -> Path:
    """A healthy node with two GPUs and one shared file system."""
    (tmp_path / "bin").mkdir()
    for name, body in PROGRAMS.items():
        (tmp_path / "bin" / name).write_text(f"#!/bin/bash\n{body}\n")
        (tmp_path / "bin" / name).chmod(0o755)
    gpus = [GPU.format(n=n, bus=bus) for n, bus in enumerate(("3B", "5E"))]
    files = {
        "gpus": "\n".join(gpus) + "\n",
        "kernel": "",
        "used": "40",
        "skew": "0.0002",
        "slurm": "0",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "health.json").write_text(json.dumps({"gpus": 2, "mounts": ["/scratch"]}))
    return tmp_path


def look(node: Path, *words: str):
    env = {"PATH": f"{node / 'bin'}{os.pathsep}/usr/bin{os.pathsep}/bin", "HERE": str(node)}
    return run(
        sys.executable, HERE / "health.py", "--config", node / "health.json", *words, env=env
    )


def replace(path: Path, old: str, new: str):
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def test_a_healthy_node_stays_in_service(node):
    done = look(node, "--drain")
    assert (done.returncode, done.stdout) == (0, "healthy\n"), done.stderr
    assert not (node / "drained").exists()


XID = "NVRM: Xid (PCI:0000:5e:00): {}, pid=4242, name=python\n"


@pytest.mark.parametrize(
    ("file", "old", "new", "says"),
    [
        ("gpus", GPU.format(n=1, bus="5E") + "\n", "", "1 of 2 GPUs are there"),
        ("gpus", "3B:00.0, 0,", "3B:00.0, 3,", "GPU 0 (00000000:3B:00.0) had 3 uncorrectable ECC"),
        ("gpus", "16, 16", "8, 16", "has 8 of its 16 PCIe lanes"),
        ("gpus", "Not Active, Not Active, 41", "Active, Not Active, 92", "too hot (92 °C)"),
        ("gpus", "Not Active, 41", "Active, 41", "the power supply asks for it"),
        (
            "kernel",
            "",
            XID.format(79),
            "GPU at 0000:5e:00 reported Xid 79: it has fallen off the bus",
        ),
        ("kernel", "", 2 * XID.format(48), "Xid 48: uncorrectable ECC error"),
        ("health.json", "/scratch", "/gone", "/gone is not mounted"),
        ("used", "40", "97", "/scratch is 97% full"),
        ("skew", "0.0002", "-0.25", "the clock is off by 250 ms"),
    ],
)
def test_each_fault_is_named_and_drains_the_node(node, file, old, new, says):
    replace(node / file, old, new)
    done = look(node, "--drain")
    assert done.returncode == 1
    assert says in done.stdout
    assert len(done.stdout.splitlines()) == 1
    update, name, state, reason = (node / "drained").read_text().splitlines()
    assert (update, state) == ("update", "State=DRAIN") and name.startswith("NodeName=")
    assert reason == f"Reason=health: {done.stdout.strip()}"


def test_a_driver_that_does_not_answer_is_a_fault_only_where_there_is_one(node):
    (node / "gpus").unlink()
    assert "nvidia-smi does not answer" in look(node).stdout
    (node / "bin/nvidia-smi").unlink()
    (node / "health.json").write_text("{}")
    assert look(node).stdout == "healthy\n"  # a node without GPUs
    (node / "health.json").write_text('{"gpus": 8}')
    assert "nvidia-smi does not answer" in look(node).stdout


def test_the_faults_of_a_program_and_missing_fields_are_no_faults_of_the_node(node):
    replace(node / "gpus", "0, 0, 16, 16", "[N/A], [N/A], [N/A], [N/A]")
    (node / "kernel").write_text(XID.format(31) + XID.format(43))
    assert look(node).stdout == "healthy\n"


def test_without_drain_it_only_looks_and_a_failed_drain_is_said(node):
    replace(node / "used", "40", "99")
    assert look(node).returncode == 1
    assert not (node / "drained").exists()
    (node / "slurm").write_text("1")
    assert "scontrol could not drain" in look(node, "--drain").stderr


def test_a_wrong_setting_is_refused(node):
    (node / "health.json").write_text('{"mount": []}')
    done = look(node)
    assert done.returncode == 2
    assert "sets mount, which does not exist; choose from gpus, mounts" in done.stderr
    (node / "health.json").write_text("gpus: 8")
    assert "is no JSON" in look(node).stderr


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A system's root with our units, systemd's own, and stubs for the programs that they start."""
    ours, systems = tmp_path / "etc/systemd/system", Path("/lib/systemd/system")
    if shutil.which("systemd-analyze") is None or not systems.is_dir():
        pytest.skip("systemd is not installed")
    shutil.copytree(systems, tmp_path / "lib/systemd/system", symlinks=True)
    ours.mkdir(parents=True)
    for name in UNITS:
        shutil.copy(HERE / name, ours)
    stubs = ("python3", "nvidia-persistenced", "xargs", "systemd-tmpfiles", "slurmd")
    for name in stubs:
        stub = tmp_path / "usr/bin" / name
        stub.parent.mkdir(parents=True, exist_ok=True)
        stub.write_text("#!/bin/sh\n")
        stub.chmod(0o755)
    (ours / "slurmd.service").write_text("[Service]\nExecStart=/usr/bin/slurmd\n")
    return tmp_path


def verify(root: Path, name: str):
    done = run(
        "systemd-analyze", "verify", f"--root={root}", "--man=no", f"etc/systemd/system/{name}"
    )
    said = [line for line in done.stderr.splitlines() if name in line]
    return done.returncode, said


def test_systemd_has_nothing_to_say_about_the_units(root):
    assert len(UNITS) == 6
    for name in UNITS:
        assert verify(root, name) == (0, []), name


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("dtlib-health.service", "TimeoutStartSec=120", "TimeoutStartSec=soon"),
        ("dtlib-persistence.service", "nvidia-persistenced --verbose", "nvidia-persist --verbose"),
        ("dtlib-mounts.service", "Type=oneshot", "Type=once"),
        ("dtlib-clean.timer", "OnCalendar=*-*-* 03:30:00", "OnCalendar=03:99"),
    ],
)
def test_systemd_refuses_a_broken_unit(root, name, old, new):
    replace(root / "etc/systemd/system" / name, old, new)
    code, said = verify(root, name)
    assert code != 0 or said


def test_the_caches_are_cleaned_by_age(tmp_path):
    """systemd-tmpfiles itself, on a tree with a new and an old file."""
    if shutil.which("systemd-tmpfiles") is None:
        pytest.skip("systemd is not installed")
    cache = tmp_path / "scratch/cache/triton"
    cache.mkdir(parents=True)
    for name, days in (("new", 1), ("old", 30)):
        (cache / name).write_text("")
        os.utime(cache / name, times=(then := (cache / name).stat().st_mtime - 86400 * days, then))
    config = tmp_path / "clean.conf"
    # An old file's time of change is now, and cannot be set: go by the two that can.
    config.write_text((HERE / "dtlib-clean.conf").read_text().replace("14d", "am:14d"))
    done = run("systemd-tmpfiles", "--clean", f"--root={tmp_path}", config)
    assert done.returncode == 0, done.stderr
    assert [path.name for path in cache.iterdir()] == ["new"]
