"""The doctor: each thing that can be missing has its line and its remedy; no probe hangs."""

import dataclasses

import pytest
from good_machine import GOOD, machine, programs

from dtlib.cluster.doctor import Finding, Machine, inside, probes_system, probes_torch, tools
from dtlib.cluster.doctor.machine import GIB
from dtlib.data.fetch import SOURCES
from dtlib.ranks.processes import Ran


def refuse(*_: object) -> None:
    raise OSError("Permission denied")


# probe, what is wrong, state, words of the finding, words of the remedy
CASES = [
    (probes_system.python, {"python": (3, 10, 1)}, "missing", "3.10.1, older than 3.11", "conda"),
    (probes_system.packages,
     {"installed": lambda name: None if name in ("papermill", "numpy") else "1"}, "missing",
     "missing: numpy, papermill", "pip install -e ."),
    (probes_system.cores, {"cores": 1}, "note", "take turns", ""),
    (probes_system.memory, {"memory_bytes": 3 * GIB}, "note", "3.0 GiB", "at least 4 GiB"),
    (probes_system.memory, {"memory_bytes": GIB}, "missing", "1.0 GiB", "at least 4 GiB"),
    (probes_system.disk, {"free_bytes": lambda p: 2 * GIB}, "note", "2.0 GiB free", "make room"),
    (probes_system.disk, {"free_bytes": lambda p: GIB // 2}, "missing", "0.5 GiB", "make room"),
    (probes_system.shared_memory, {"total_bytes": lambda p: 64 * 2**20}, "note",
     "0.06 GiB in /dev/shm", "--shm-size=2g"),
    (probes_system.shared_memory, {"exists": lambda p: False}, "note", "no /dev/shm", "mount"),
    (probes_system.ports, {"listen": refuse}, "missing", "Permission denied", "firewall"),
    (probes_system.host_name,
     {"commands": {"resolve": Ran(1, "Traceback …\nsocket.gaierror: unknown\n")}}, "note",
     "does not resolve (socket.gaierror: unknown)", "/etc/hosts"),
    (probes_system.host_name,
     {"commands": {"resolve": Ran(None, "no answer within 10 s")}, "system": "Darwin"}, "note",
     "no answer within 10 s", "start ranks with `dtlib`"),
    (probes_system.interfaces, {"env": {"GLOO_SOCKET_IFNAME": "^lo,docker"}}, "missing",
     "GLOO_SOCKET_IFNAME=^lo,docker is in NCCL's syntax",
     "unset it, or set it to one of lo, eth0"),
    (probes_system.interfaces, {"env": {"GLOO_SOCKET_IFNAME": "lo", "SLURM_JOB_NUM_NODES": "2"}},
     "missing", "GLOO_SOCKET_IFNAME=lo is the loopback interface",
     "unset it, or set it to one of eth0"),
    (probes_torch.torch,
     {"answers": {"torch": Ran(1, "ModuleNotFoundError: No module named 'torch'\n")}}, "missing",
     "No module named 'torch'", "pip install"),
    (probes_torch.torch, {"answers": {"torch": Ran(-11, "")}}, "missing", "-11", "pip install"),
    (probes_torch.torch, {"answers": {"torch": {**GOOD["torch"], "version": "2.4.0+cu121"}}},
     "missing", "2.4.0+cu121, backends: gloo; older than 2.11", "pip install"),
    (probes_torch.torch, {"answers": {"torch": {**GOOD["torch"], "gloo": False}}}, "missing",
     "backends: none", "PyPI"),
    (probes_torch.gpu, {}, "note", "lessons run on the CPU", ""),
    (probes_torch.collective,
     {"answers": {"collective": Ran(1, "RankFailed: rank 1 did not join\n")}}, "missing",
     "rank 1 did not join", "dtlib doctor"),
    (probes_torch.collective, {"answers": {"collective": {"sums": [1.0, 2.0], "seconds": 1.0}}},
     "missing", "got [1.0, 2.0] instead of [3.0, 3.0]", "dtlib doctor"),
    (probes_torch.data, {"answers": {"data": {"cifar10": None, "wikitext2": "/d"}}}, "note",
     "wikitext2 (/d); not here: cifar10", "dtlib fetch cifar10 (or set DTLIB_DATA"),
    (tools.libaio, {"exists": lambda p: False}, "note", "missing: libaio", "libaio-dev"),
    (tools.deepspeed, {"installed": lambda p: None}, "note", "not installed", "[deepspeed]"),
    (tools.deepspeed,
     {"answers": {"deepspeed": Ran(1, "x\nImportError: cannot import name 'foo'\n")}}, "note",
     "its import fails: ImportError: cannot import name 'foo'", "pip install"),
    (tools.operators, {"answers": {"operators": {"missing": ["async_io"], "folder": "/x"}}}, "note",
     "not compiled: async_io", "dtlib ops build"),
    (tools.operators, {"installed": lambda p: None}, "note", "DeepSpeed is not installed", ""),
    (tools.slurm, {}, "note", "none", ""),
]  # fmt: skip


@pytest.mark.parametrize(
    ("probe", "wrong", "state", "found", "remedy"), CASES, ids=[c[0].__name__ for c in CASES]
)
def test_what_is_missing_is_found_and_has_a_remedy(probe, wrong, state, found, remedy):
    finding = probe(machine(**wrong))
    assert finding.state == state
    assert found in finding.found
    assert remedy in finding.remedy
    assert "\n" not in finding.found + finding.remedy


def test_no_remedy_is_a_variable_that_a_job_would_inherit():
    """`export GLOO_SOCKET_IFNAME=lo` in a shell is that of every job submitted from it."""
    for probe, wrong, *_ in CASES:
        assert "SOCKET_IFNAME=" not in probe(machine(**wrong)).remedy


# field bug 3.05
def test_nothing_on_the_path_names_what_building_needs(tmp_path):
    assert tools.missing_tools(machine()) == ["ninja", "c++"]
    finding = tools.compiler(machine())
    assert finding.state == "note"  # no lesson of a laptop fails for it
    assert finding.found.startswith("missing: ninja, c++ ")
    assert "apt-get install g++" in finding.remedy
    assert "xcode-select --install" in tools.compiler(machine(system="Darwin")).remedy
    some = machine(env={"PATH": programs(tmp_path / "a", "ninja", "clang++")})
    assert tools.compiler(some).state == "ok"
    gpu = machine(
        env={"PATH": programs(tmp_path / "b", "ninja", "g++", "nvidia-smi")},
        exists=lambda path: False,
    )
    assert tools.missing_tools(gpu) == ["nvcc (CUDA_HOME)"]


# field bug 3.09
def test_deepspeed_that_crashes_on_import_is_a_line_and_no_traceback():
    finding = tools.deepspeed(machine(answers={"deepspeed": Ran(-6, "")}))
    assert finding.state == "note"
    assert "its import fails: exit code -6" in finding.found


def test_gpu_names_everything_beneath_it(tmp_path):
    facts = {**GOOD["torch"], "gpus": ["NVIDIA H100", "NVIDIA H100"], "cuda": "12.8",
             "cudnn": 91002, "nccl_version": "2.27.5"}  # fmt: skip
    there = machine(
        env={"PATH": programs(tmp_path / "bin", "nvidia-smi")},
        answers={"torch": facts},
        commands={"nvidia-smi": Ran(0, "570.86\n570.86\n")},
    )
    expected = "2 × NVIDIA H100, driver 570.86, CUDA 12.8, cuDNN 91002, NCCL 2.27.5"
    assert probes_torch.gpu(there) == Finding("GPU", "ok", expected)
    for has, state, told in (
        ([True, True], "ok", ", bf16"),
        ([True, False], "note", ", no bf16 on GPU 1"),
        ([False, False], "note", ", no bf16"),
    ):
        finding = probes_torch.gpu(
            machine(
                env=there.env,
                answers={"torch": {**facts, "bf16": has}},
                commands={"nvidia-smi": Ran(0, "570.86\n570.86\n")},
            )
        )
        assert (finding.state, finding.found) == (state, expected + told)
        assert ("--precision fp16" in finding.remedy) == (state == "note")
    blind = dataclasses.replace(there, run=machine().run, answers={})
    assert probes_torch.gpu(blind).state == "note"


def test_driver_without_a_torch_that_can_use_it(tmp_path):
    there = machine(
        env={"PATH": programs(tmp_path / "bin", "nvidia-smi")},
        commands={"nvidia-smi": Ran(0, "470.1\n")},
    )
    finding = probes_torch.gpu(there)
    assert finding.state == "note"
    assert "the driver 470.1 finds a GPU, but torch 2.14.1 cannot use it" in finding.found


def test_slurm_says_where_we_are_and_what_answers(tmp_path):
    env = {"PATH": programs(tmp_path / "bin", "sbatch"), "SLURM_JOB_ID": "12"}
    up = machine(env=env, commands={"sinfo": Ran(0, "2 idle\n1   mixed\n")})
    assert tools.slurm(up).found == "inside job 12; nodes: 2 idle, 1 mixed"
    down = machine(env=env, commands={"sinfo": Ran(None, "no answer within 20 s")})
    assert tools.slurm(down).state == "note"
    assert "no answer within 20 s" in tools.slurm(down).found


def test_macos_needs_less():
    mac = machine(system="Darwin", exists=lambda path: False)
    for probe in (probes_system.shared_memory, tools.libaio, tools.operators):
        assert probe(mac).state == "ok"
        assert probe(mac).found == "not needed on macOS"
    assert tools.deepspeed(mac).state == "note"
    apple = machine(system="Darwin", answers={"torch": {**GOOD["torch"], "mps": True}})
    assert "Apple's (mps)" in probes_torch.gpu(apple).found


def test_this_machine_really_sums_over_two_ranks():
    here = Machine.here()
    assert probes_torch.collective(here).state == "ok"
    assert probes_torch.torch(here).state == "ok"
    assert probes_system.ports(here).state == "ok"


def test_real_data_is_found(real_data, monkeypatch):
    monkeypatch.setenv("DTLIB_DATA", str(real_data))
    found = inside.data()
    assert found["wikitext2"] and str(real_data) in found["wikitext2"]


def test_data_that_is_not_there_is_none(tmp_path, monkeypatch):
    monkeypatch.setenv("DTLIB_DATA", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert set(inside.data().values()) == {None}
    assert set(inside.data()) <= set(SOURCES), "what is missing can be fetched by its name"
