"""The reader of Nsight Compute, on pages whose figures are known by hand."""

import pytest
from profiling_exports import details_csv, raw_csv

from dtlib.cli import main
from dtlib.errors import BadInput
from dtlib.measure.profiling import metrics, ncu, tables
from dtlib.sim.hardware import DEVICES

TIME, READ, WRITTEN = metrics.DURATION, "dram__bytes_read.sum", "dram__bytes_write.sum"
BF16 = "sm__ops_path_tensor_src_bf16_dst_fp32.sum"
ADD, MUL, FMA = (f"smsp__sass_thread_inst_executed_op_f{op}_pred_on.sum"
                 for op in ("add", "mul", "fma"))  # fmt: skip
GPU = "device__attribute_display_name"
# 1024³ in bf16 takes 2·1024³ operations
PRODUCT = 2 * 1024**3


@pytest.fixture
def raw(tmp_path):
    """Two launches of a product (10 µs each, 20 MB), one of a kernel in fp32."""
    columns = {TIME: "us", READ: "Mbyte", WRITTEN: "byte", BF16: "", ADD: "inst", MUL: "inst",
               FMA: "inst", GPU: ""}  # fmt: skip
    product = ["10.0", "18", "2,000,000", f"{PRODUCT:,}", "0", "0", "0", "NVIDIA H100 80GB HBM3"]
    other = ["1,000.5", "1", "0", "n/a", "1,000", "2,000", "500", "NVIDIA H100 80GB HBM3"]
    rows = [("gemm_bf16", product), ("gemm_bf16", product), ("add_fp32", other)]
    return raw_csv(tmp_path / "rank0.csv", columns, rows)


def test_launches_of_a_kernel_are_added_up_in_base_units(raw):
    slow, product = ncu.read(raw)
    assert (product.kernel, product.launches) == ("gemm_bf16", 2)
    assert product.seconds == pytest.approx(20e-6)
    assert product.flop == {"bf16": 2 * PRODUCT, "fp32": 0}
    assert product.flop_per_second() == {"bf16": pytest.approx(PRODUCT / 10e-6)}
    assert product.bytes_per_second() == pytest.approx(20e6 / 10e-6)
    # a fused multiply-add is two operations; what the chip does not count (n/a) is left out
    assert slow.kernel == "add_fp32" and slow.flop == {"fp32": 1000 + 2000 + 2 * 500}
    assert slow.seconds == pytest.approx(1000.5e-6)


def test_the_command_prints_the_shares_of_the_peak(raw, capsys):
    assert main(["profile", "read", str(raw)]) == 0
    out = capsys.readouterr().out
    h100 = DEVICES["h100"]
    bandwidth, peak = 2e12 / h100["bandwidth"], PRODUCT / 10e-6 / h100["peak"]["bf16"]
    row = next(line for line in out.splitlines() if line.endswith("gemm_bf16"))
    assert row.split() == ["2", "10.0", "2,000.00", f"{100 * bandwidth:.1f}", "%", "214.75", "bf16",
                           f"{100 * peak:.1f}", "%", "gemm_bf16"]  # fmt: skip
    assert out.splitlines()[-1] == f"Peak: {h100['title']} ({h100['source']})."
    assert main(["profile", "read", str(raw), "--device", "a100-80"]) == 0
    assert DEVICES["a100-80"]["title"] in capsys.readouterr().out
    assert main(["profile", "read", str(raw), "--device", "h10"]) == 2
    assert "Did you mean 'h100'?" in capsys.readouterr().err


def test_a_details_page_has_a_row_a_metric_and_labels(tmp_path):
    path = details_csv(tmp_path / "details.csv", [
        ("0", "gemm", "Duration", "usecond", "40"),
        ("0", "gemm", "Memory Throughput", "Gbyte/second", "1,250.5"),
        ("0", "gemm", "Memory Throughput", "%", "61.5"),
        ("0", "gemm", BF16, "", "8,000,000"),
        ("1", "gemm", "Duration", "usecond", "60"),
        ("1", "gemm", "Memory Throughput", "Tbyte/second", "1"),
        ("1", "gemm", BF16, "", "2,000,000"),
    ])  # fmt: skip
    (one,) = ncu.read(path)
    assert (one.launches, one.seconds) == (2, pytest.approx(100e-6))
    assert one.flop_per_second() == {"bf16": pytest.approx(10e6 / 100e-6)}
    assert one.dram_bytes == pytest.approx(1250.5e9 * 40e-6 + 1e12 * 60e-6)


@pytest.mark.parametrize("encoding", ["", "utf-16"])
def test_the_roofline_set_counts_per_cycle(tmp_path, encoding):
    columns = {TIME: "ns", f"{BF16}.per_cycle_elapsed": "", "sm__cycles_elapsed.avg.per_second":
               "cycle/nsecond"}  # fmt: skip
    path = raw_csv(tmp_path / "r.csv", columns, [("gemm", ["2000", "1,024", "1.5"])])
    if encoding:  # as PowerShell's > writes it
        path.write_bytes(path.read_text().encode(encoding))
    (one,) = ncu.read(path)
    # 1024 operations a cycle at 1.5 GHz
    assert one.flop_per_second() == {"bf16": pytest.approx(1024 * 1.5e9)}
    assert one.bytes_per_second() is None


def test_a_whole_is_never_added_to_its_parts():
    tensor = "sm__ops_path_tensor_src_fp16"
    parts = {f"{tensor}_dst_fp16.sum": 3.0, f"{tensor}_dst_fp32.sum": 4.0}
    assert metrics.flop(parts) == {"fp16": 7.0}
    assert metrics.flop({**parts, f"{tensor}.sum": 8.0}) == {"fp16": 8.0}


@pytest.mark.parametrize(
    ("text", "unit", "value"),
    [("1,234,567", "ns", 1.234567e-3), ("12.5", "us", 1.25e-5), ("3", "msecond", 3e-3),
     ("9,5", "%", 9.5), ("1.5", "Gbyte/second", 1.5e9), ("2", "Kbyte", 2000), ("7", "second", 7),
     ("1 024", "inst", 1024), ("1.2", "cycle/nsecond", 1.2e9), ("1,234.5", "", 1234.5),
     ("n/a", "", None), ("(256, 1, 1)", "", None)],  # no numbers
)  # fmt: skip
def test_numbers_come_in_base_units(text, unit, value):
    assert ncu.number(text, unit) == pytest.approx(value)


@pytest.mark.parametrize(("name", "row"), [
    ("NVIDIA H100 80GB HBM3", "h100"), ("NVIDIA H100 PCIe", "h100-pcie"),
    ("NVIDIA H100 NVL", None), ("NVIDIA H200", "h200"), ("NVIDIA GH200 480GB", None),
    ("NVIDIA A100-SXM4-80GB", "a100-80"), ("NVIDIA A100-PCIE-40GB", "a100-40"),
    ("NVIDIA A100 80GB PCIe", None), ("Tesla V100-SXM2-32GB", "v100"), ("NVIDIA B200", "b200"),
    ("NVIDIA GeForce RTX 3090", "rtx3090"), ("NVIDIA GeForce RTX 3090 Ti", None),
    ("NVIDIA GeForce RTX 4090", "rtx4090"), ("", None),
])  # fmt: skip
def test_a_board_is_known_by_its_name_or_not_at_all(name, row):
    assert tables.device_of(name) == row


def test_what_cannot_be_read_is_refused_in_a_sentence(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("==ERROR== No kernels were profiled.\n")
    with pytest.raises(BadInput, match=r"has no ncu table; make it with `ncu --import"):
        ncu.read(path)
    raw_csv(path, {TIME: "ns"}, [])
    with pytest.raises(BadInput, match="has no launch in it: no kernel matched the filter"):
        ncu.read(path)
    raw_csv(path, {READ: "byte"}, [("gemm", ["1"])])
    with pytest.raises(BadInput, match="has no duration for kernel gemm"):
        ncu.read(path)
    raw_csv(path, {TIME: "ns"}, [("gemm", ["nan"])])
    with pytest.raises(BadInput, match="has no duration for kernel gemm"):
        ncu.read(path)
    path.write_text('"ID","Kernel Name","Metric Name"\n"0","gemm","Duration"\n')
    with pytest.raises(BadInput, match="has no ncu table"):
        ncu.read(path)
    with pytest.raises(BadInput, match=r"cannot be read as ncu's CSV.*make it with `ncu --import"):
        ncu.read(tmp_path)


def test_a_mark_of_the_byte_order_is_passed_over(tmp_path):
    raw_csv(tmp_path / "x.csv", {TIME: "ns"}, [("gemm", ["5"])])
    (tmp_path / "x.csv").write_text((tmp_path / "x.csv").read_text(), encoding="utf-8-sig")
    assert [one.kernel for one in ncu.read(tmp_path / "x.csv")] == ["gemm"]
