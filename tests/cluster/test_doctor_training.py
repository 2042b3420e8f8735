"""The doctor's findings on what stops a training run on a GPU, each with its remedy."""

import dataclasses
import sys
from pathlib import Path

from good_machine import GOOD, machine, programs

from dtlib.cluster.doctor import inside, probes_torch, probes_training
from dtlib.ranks.processes import Ran

NO_CUDNN = "ImportError: libcudnn.so.9: cannot open shared object file: No such file or directory"
MISMATCH = (
    "cuDNN version incompatibility: PyTorch was compiled  against (9, 10, 2) but found runtime"
    " version (8, 9, 2)."
)
GPU = {**GOOD["torch"], "gpus": ["NVIDIA H100"], "cuda": "12.8", "cudnn": 91002}


def with_gpu(cudnn=None, **facts):
    answers = {"torch": {**GPU, **facts}, "cudnn": cudnn or {"version": 91002}}
    return machine(answers=answers)


def test_a_missing_libcudnn_is_named_where_torch_fails():
    there = machine(answers={"torch": Ran(1, f"Traceback …\n{NO_CUDNN}\n")})
    assert probes_torch.torch(there).state == "missing"
    finding = probes_training.cudnn(there)
    assert finding.state == "missing" and "libcudnn.so.9" in finding.found
    assert "LD_LIBRARY_PATH" in finding.remedy


def test_another_cudnn_in_the_way_is_a_finding_and_torch_itself_is_well():
    there = with_gpu(cudnn=None, cudnn_error=MISMATCH)
    finding = probes_training.cudnn(there)
    assert finding.state == "missing" and "found runtime version (8, 9, 2)" in finding.found
    assert probes_torch.torch(there).state == "ok"


def test_the_mismatch_is_told_and_not_raised(monkeypatch):
    import torch

    def version():
        raise RuntimeError(MISMATCH)

    monkeypatch.setattr(torch.backends.cudnn, "version", version)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    assert inside._cudnn_version() == (None, " ".join(MISMATCH.split()))
    assert inside.torch()["cudnn_error"] is None  # nobody asked: there is no GPU


def test_cudnn_of_which_a_part_cannot_be_loaded():
    said = "RuntimeError: Unable to find an engine: libcudnn_ops.so.9 cannot be loaded"
    finding = probes_training.cudnn(with_gpu(Ran(1, said)))
    assert finding.state == "missing" and "a convolution failed" in finding.found
    busy = probes_training.cudnn(with_gpu(Ran(1, "AcceleratorError: CUDA-capable device is busy")))
    assert busy.state == "note" and busy.remedy


def test_cudnn_that_works_and_a_machine_that_needs_none():
    assert probes_training.cudnn(with_gpu()).found == "91002, a convolution ran"
    assert probes_training.cudnn(machine()).found == "not needed without an NVIDIA GPU"
    broken = machine(answers={"torch": Ran(1, "ImportError: libmkl")})
    assert probes_training.cudnn(broken).state == "note"


def test_memory_that_others_hold(tmp_path):
    env = {"PATH": programs(tmp_path / "bin", "nvidia-smi")}
    ask = lambda text: probes_training.gpu_memory(  # noqa: E731
        machine(env=env, commands={"nvidia-smi": Ran(0, text)})
    )
    taken = ask("0, 81000, 81920\n1, 2048, 81920\n")
    assert taken.state == "note" and "nvidia-smi" in taken.remedy
    assert "2.0 of 80.0 GiB free on 1" in taken.found
    assert ask("0, 81000, 81920\n").state == "ok"
    assert ask("Failed to initialize NVML\n").state == "note"
    assert probes_training.gpu_memory(machine()).state == "ok"


def test_torchrun_of_another_python(tmp_path):
    other = machine(env={"PATH": programs(tmp_path / "bin", "torchrun")})
    finding = probes_training.launcher(other)
    assert finding.state == "note" and "python -m torch.distributed.run" in finding.remedy
    own = machine(env={"PATH": str(Path(sys.executable).parent)})
    assert probes_training.launcher(own).state == "ok"
    assert probes_training.launcher(machine()).found == "dtlib's own; also none"


def test_a_world_that_is_there_and_one_that_is_broken():
    world = {"RANK": "1", "WORLD_SIZE": "4", "MASTER_ADDR": "n1", "MASTER_PORT": "1", "PATH": ""}
    finding = probes_training.launcher(machine(env=world))
    assert "rank 1 of 4, started by torchrun" in finding.found and "--ranks" in finding.remedy
    half = probes_training.launcher(machine(env={"RANK": "1", "PATH": ""}))
    assert half.state == "note" and "WORLD_SIZE" in half.found


def test_no_internet_says_how_data_come_here():
    there = machine()
    lost = dataclasses.replace(there, run=lambda *_: Ran(1, "…\nsocket.gaierror: unknown\n"))
    finding = probes_training.internet(lost)
    assert finding.state == "note" and "socket.gaierror: unknown" in finding.found
    assert "--from FILE" in finding.remedy and "HF_HUB_OFFLINE=1" in finding.remedy
    assert probes_training.internet(there).state == "ok"
    told = dataclasses.replace(lost, env={"PATH": "", "HF_HUB_OFFLINE": "1"})
    assert probes_training.internet(told).found == "not checked, because HF_HUB_OFFLINE is set"
