"""The reader of Nsight Systems, on exports whose shares are known by hand."""

import sqlite3

import pytest
from profiling_exports import FIRST, GEMM, NCCL, SECOND, SOFTMAX, NsysExport, one_step

from dtlib.cli import main
from dtlib.errors import BadInput
from dtlib.learn import rooms, source
from dtlib.measure.profiling import nsys, tables

made_export = rooms.module(source.find("20"), "made_export").made_export


def shares_of(gpu: nsys.GpuShares) -> dict[str, float]:
    names = ("kernel", "nccl", "exposed_nccl", "copy", "exposed_copy", "idle")
    return {name: pytest.approx(getattr(gpu, name)) for name in names}


def test_a_step_has_the_shares_it_was_made_with(tmp_path):
    (gpu,) = nsys.read(one_step(tmp_path / "a.sqlite").done()).gpus
    assert (gpu.process, gpu.device, gpu.name) == (FIRST, 0, "NVIDIA H100 80GB HBM3")
    assert gpu.seconds == pytest.approx(0.1)
    expected = {"kernel": 0.5, "nccl": 0.3, "exposed_nccl": 0.2}
    assert shares_of(gpu) == {**expected, "copy": 0.1, "exposed_copy": 0.1, "idle": 0.2}
    assert gpu.kernel + gpu.exposed_nccl + gpu.exposed_copy + gpu.idle == pytest.approx(1)


def test_a_range_has_the_kernels_that_it_launched_from_any_thread(tmp_path):
    ranges = nsys.read(one_step(tmp_path / "a.sqlite").done()).ranges
    told = [(one.name, one.count, one.seconds, one.gpu_seconds) for one in ranges]
    # backward launched nccl 40–70 and a gemm 85–95, both from another thread and later than it ran
    assert told == [
        ("step", 1, pytest.approx(0.1), pytest.approx(0.07)),
        ("backward", 1, pytest.approx(0.05), pytest.approx(0.04)),
        ("forward", 1, pytest.approx(0.025), pytest.approx(0.04)),
    ]


def test_kernels_are_added_up_by_name(tmp_path):
    kernels = nsys.read(one_step(tmp_path / "a.sqlite").done()).kernels
    assert [(one.name, one.count, one.seconds) for one in kernels] == [
        (GEMM, 2, pytest.approx(0.04)),
        (NCCL, 1, pytest.approx(0.03)),
        (SOFTMAX, 1, pytest.approx(0.02)),
    ]


@pytest.mark.parametrize("name", ["ncclDevKernel_AllReduce", "void ncclKernel<4>(ncclWork*)"])
def test_a_kernel_of_nccl_begins_with_its_name(name):
    assert nsys.kind_of(name) == "nccl"
    assert nsys.kind_of(f"pack_for_{name}") == nsys.kind_of(f"gather({name}*)") == "compute"


def test_copies_alone_have_shares_and_no_kernels(tmp_path, capsys):
    made = NsysExport(tmp_path / "copies.sqlite")
    made.range("step", 0, 10)
    made.copy("MEMCPY", 2, 4)
    assert main(["profile", "read", str(made.done())]) == 0
    out = capsys.readouterr().out
    assert "20.0 %  80.0 %" in out and out.endswith("\nThere are no kernels.\n")


def test_each_gpu_of_each_process_has_its_own_shares_and_its_own_steps(tmp_path):
    made = NsysExport(tmp_path / "two.sqlite")
    made.range("step", 0, 10, process=FIRST)
    made.range("step", 20, 40, process=SECOND)
    made.kernel(GEMM, 0, 5, process=FIRST, device=0)
    made.kernel(GEMM, 0, 10, process=FIRST, device=1)
    made.kernel(NCCL, 15, 25, process=SECOND, device=0)  # half of it before the captured step
    found = nsys.read(made.done()).gpus
    assert [(one.process, one.device, one.seconds) for one in found] == [
        (FIRST, 0, pytest.approx(0.010)),
        (FIRST, 1, pytest.approx(0.010)),
        (SECOND, 0, pytest.approx(0.020)),
    ]
    assert [(one.kernel, one.nccl, one.idle) for one in found] == [
        (pytest.approx(0.5), 0, pytest.approx(0.5)),
        (pytest.approx(1), 0, pytest.approx(0)),
        (0, pytest.approx(0.25), pytest.approx(0.75)),
    ]


def test_tables_that_lack_are_told_as_not_known(tmp_path):
    made = one_step(tmp_path / "a.sqlite")
    made.without("NVTX_EVENTS", "CUPTI_ACTIVITY_KIND_RUNTIME", "TARGET_INFO_GPU",
                 "CUPTI_ACTIVITY_KIND_MEMCPY", "CUPTI_ACTIVITY_KIND_MEMSET")  # fmt: skip
    export = nsys.read(made.done())
    assert export.ranges == []
    # from the first kernel at 10 to the last one's end at 95
    (gpu,) = export.gpus
    assert (gpu.seconds, gpu.name, gpu.copy) == (pytest.approx(0.085), "", 0)
    assert gpu.idle == pytest.approx(15 / 85)


def test_without_launches_a_range_has_no_kernel_time(tmp_path):
    made = one_step(tmp_path / "a.sqlite")
    made.without("CUPTI_ACTIVITY_KIND_RUNTIME")
    assert {one.gpu_seconds for one in nsys.read(made.done()).ranges} == {None}


def test_the_export_of_lesson_20_is_read_too():
    rows = [(7, GEMM, 0, 60), (9, NCCL, 40, 90), (10, "", 90, 100)]
    (gpu,) = nsys.analyse(made_export(rows)).gpus
    expected = {"kernel": 0.6, "nccl": 0.5, "exposed_nccl": 0.3}
    assert shares_of(gpu) == {**expected, "copy": 0.1, "exposed_copy": 0.1, "idle": 0}


def test_a_range_that_was_left_open_is_passed_over(tmp_path):
    made = one_step(tmp_path / "a.sqlite")
    made.range("optimizer", 80, None)
    assert "optimizer" not in {one.name for one in nsys.read(made.done()).ranges}


def four_steps_of_100_ms(path, kernels="CUPTI_ACTIVITY_KIND_KERNEL"):
    """400 ms with kernels 0–100 and 200–300, nccl 100–150."""
    made = NsysExport(path)
    made.range("step", 0, 400)
    for name, start, end in ((GEMM, 0, 100), (NCCL, 100, 150), (GEMM, 200, 300)):
        made.kernel(name, start, end)
    made.rename("CUPTI_ACTIVITY_KIND_KERNEL", kernels)
    return made


def test_a_cuda_graph_that_is_one_row_counts_as_a_kernel(tmp_path):
    made = four_steps_of_100_ms(tmp_path / "graph.sqlite")
    assert nsys.read(made.done()).gpus[0].idle == pytest.approx(0.375)
    made = four_steps_of_100_ms(tmp_path / "b.sqlite")
    made.graph(300, 400, launched=290)
    export = nsys.read(made.done())
    (gpu,) = export.gpus
    assert (gpu.kernel, gpu.exposed_nccl, gpu.idle) == (
        pytest.approx(0.75), pytest.approx(0.125), pytest.approx(0.125)
    )  # fmt: skip
    assert ("CUDA graph, whose kernels are not told apart", 1, pytest.approx(0.1)) in [
        (one.name, one.count, one.seconds) for one in export.kernels
    ]
    assert export.ranges[0].gpu_seconds == pytest.approx(0.35)
    assert export.unknown == []


def test_tables_of_another_version_are_named(tmp_path, capsys):
    made = four_steps_of_100_ms(tmp_path / "a.sqlite")
    made.rename("NVTX_EVENTS", "NVTX_EVENTS_V2")
    assert main(["profile", "read", str(made.done())]) == 0
    assert "does not know them: NVTX_EVENTS_V2." in capsys.readouterr().out
    made = four_steps_of_100_ms(tmp_path / "b.sqlite", "CUPTI_ACTIVITY_KIND_KERNEL_V3")
    with pytest.raises(
        BadInput, match=r"b\.sqlite has no kernel .*CUPTI_ACTIVITY_KIND_KERNEL_V3\."
    ):
        nsys.read(made.done())


def test_what_is_no_export_is_refused_in_a_sentence(tmp_path):
    with pytest.raises(BadInput, match="there is no file"):
        nsys.read(tmp_path / "nowhere.sqlite")
    text = tmp_path / "text.sqlite"
    text.write_text("no database at all, whatever its name says" * 10)
    with pytest.raises(BadInput, match=r"cannot be read as an export.*nsys export --type sqlite"):
        nsys.read(text)
    empty = NsysExport(tmp_path / "empty.sqlite").done()
    with pytest.raises(BadInput, match=r"empty\.sqlite has no kernel and no copy in it"):
        nsys.read(empty)
    sqlite3.connect(tmp_path / "other.sqlite").close()
    (tmp_path / "other.sqlite").touch()
    with pytest.raises(BadInput, match=r"other\.sqlite is not an export of Nsight Systems"):
        nsys.read(tmp_path / "other.sqlite")


@pytest.mark.parametrize("value", ["NULL", "'text'", "x'ff'"])
@pytest.mark.parametrize("column", ["start", "end", "deviceId"])
def test_an_export_with_another_type_in_a_column_is_refused(tmp_path, column, value):
    path = one_step(tmp_path / "damaged.sqlite").done()
    with sqlite3.connect(path) as database:
        for table in ("KERNEL", "MEMCPY"):
            database.execute(
                f"UPDATE CUPTI_ACTIVITY_KIND_{table} SET {column} = {value} WHERE rowid = 1"
            )
    with pytest.raises(BadInput, match=r"damaged\.sqlite cannot be read as an export"):
        nsys.read(path)


def test_kernels_of_no_length_have_no_share(tmp_path):
    made = NsysExport(tmp_path / "a.sqlite")
    made.kernel("gemm", 5, 5)
    assert tables.of_kernels(nsys.read(made.done()))[1] == ["1", "0.000", "0.0 %", "gemm"]


def test_the_command_prints_exactly_the_shares(tmp_path, capsys):
    made = one_step(tmp_path / "rank0.sqlite").done()
    assert main(["profile", "read", str(made), "--top", "2"]) == 0
    assert capsys.readouterr().out == (
        "Shares of the captured time; kinds may overlap; exposed NCCL runs while no kernel does.\n"
        "GPU  process       ms  kernels    NCCL  exposed NCCL  copies    idle  name\n"
        "  0     4001  100.000   50.0 %  30.0 %        20.0 %  10.0 %  20.0 %"
        "  NVIDIA H100 80GB HBM3\n"
        "\n"
        "times  ms on the CPU  ms of kernels  NVTX range\n"
        "    1        100.000         70.000  step\n"
        "    1         50.000         40.000  backward\n"
        "\n"
        "times      ms  of kernels  kernel\n"
        f"    2  40.000      44.4 %  {GEMM}\n"
        f"    1  30.000      33.3 %  {NCCL}\n"
    )
