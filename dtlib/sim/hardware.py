"""The limits of devices: memory, dense peaks and bandwidths, each row with its source.

Peaks are *dense* ones in FLOP/s. Data sheets of GPUs since Ampere also print numbers "with
sparsity", which are twice as large and which no ordinary training reaches; they are not used.
Plain data, no imports: it also goes into the browser.

`memory` is the size of the memory chips in bytes; the driver keeps 1 to 2 % of it, and a process
about half a GB more. `bandwidth` (memory) and `link` (to one neighbour, one direction) are
in bytes per second; 1 GB = 10⁹ bytes, 1 GiB = 2³⁰ bytes. `fp32` is the peak of fp32 without TF32.
`reached` is the best bf16 matrix product that was measured, in FLOP/s, if one is published:
S. Bekman, "Machine Learning Engineering", table of maximum achievable matmul FLOPS (MAMF).
`board` is a pattern for the name that NVIDIA's driver reports, which must not match a sister board
with other peaks (an H100 NVL, a 3090 Ti).
"""

GIB = 2**30
T = 1e12

DEVICES: dict = {
    "v100": {
        "title": "NVIDIA V100 SXM2 32 GB", "board": r"\bV100-SXM2-32GB\b",
        "memory": 32 * GIB, "bandwidth": 900e9, "link": 150e9, "link_name": "NVLink 2",
        "peak": {"fp16": 125 * T, "fp32": 15.7 * T, "fp64": 7.8 * T},
        "source": "NVIDIA Tesla V100 data sheet (2018)",
    },
    "a100-40": {
        "title": "NVIDIA A100 SXM 40 GB", "board": r"\bA100-\w+-40GB\b",
        "memory": 40 * GIB, "bandwidth": 1555e9, "link": 300e9, "link_name": "NVLink 3",
        "peak": {"bf16": 312 * T, "fp16": 312 * T, "tf32": 156 * T, "fp32": 19.5 * T,
                 "fp64": 19.5 * T},
        "reached": 271.2 * T,
        "source": "NVIDIA A100 data sheet (2021)",
    },
    "a100-80": {
        "title": "NVIDIA A100 SXM 80 GB", "board": r"\bA100-SXM4-80GB\b",
        "memory": 80 * GIB, "bandwidth": 2039e9, "link": 300e9, "link_name": "NVLink 3",
        "peak": {"bf16": 312 * T, "fp16": 312 * T, "tf32": 156 * T, "fp32": 19.5 * T,
                 "fp64": 19.5 * T},
        "reached": 271.2 * T,
        "source": "NVIDIA A100 data sheet (2021)",
    },
    "h100": {
        "title": "NVIDIA H100 SXM 80 GB", "board": r"\bH100 80GB HBM3\b|\bH100 SXM",
        "memory": 80 * GIB, "bandwidth": 3.35e12, "link": 450e9, "link_name": "NVLink 4",
        "peak": {"fp8": 1979 * T, "bf16": 989 * T, "fp16": 989 * T, "tf32": 494.5 * T,
                 "fp32": 67 * T, "fp64": 67 * T},
        "reached": 794.5 * T,
        "source": "NVIDIA H100 data sheet (2023), its figures with sparsity halved",
    },
    "h100-pcie": {
        "title": "NVIDIA H100 PCIe 80 GB", "board": r"\bH100 PCIe\b",
        "memory": 80 * GIB, "bandwidth": 2.0e12, "link": 64e9, "link_name": "PCIe 5.0 ×16",
        "peak": {"fp8": 1513 * T, "bf16": 756.5 * T, "fp16": 756.5 * T, "tf32": 378 * T,
                 "fp32": 51 * T, "fp64": 51 * T},
        "source": "NVIDIA H100 data sheet (2022), its figures with sparsity halved",
    },
    "h200": {
        "title": "NVIDIA H200 SXM 141 GB", "board": r"\bH200$|\bH200 SXM",
        "memory": 140 * GIB, "bandwidth": 4.8e12, "link": 450e9, "link_name": "NVLink 4",
        "peak": {"fp8": 1979 * T, "bf16": 989 * T, "fp16": 989 * T, "tf32": 494.5 * T,
                 "fp32": 67 * T, "fp64": 67 * T},
        "source": "NVIDIA H200 data sheet (2024), its figures with sparsity halved",
    },
    "b200": {
        "title": "NVIDIA B200 SXM 180 GB (HGX)", "board": r"\bB200\b",
        "memory": 179 * GIB, "bandwidth": 8.0e12, "link": 900e9, "link_name": "NVLink 5",
        "peak": {"fp8": 4500 * T, "bf16": 2250 * T, "fp16": 2250 * T, "tf32": 1125 * T,
                 "fp32": 75 * T, "fp64": 37 * T},
        "reached": 1745 * T,
        "source": "NVIDIA HGX B200 data sheet (2025), its figures with sparsity halved",
    },
    "mi300x": {
        "title": "AMD Instinct MI300X 192 GB",
        "memory": 192 * GIB,
        "bandwidth": 5.3e12,
        "link": 64e9,
        "link_name": "Infinity Fabric, one of seven links",
        "peak": {"fp8": 2614.9 * T, "bf16": 1307.4 * T, "fp16": 1307.4 * T, "tf32": 653.7 * T,
                 "fp32": 163.4 * T, "fp64": 163.4 * T},
        "reached": 668 * T,
        "source": "AMD Instinct MI300X data sheet (2023)",
    },
    "rtx3090": {
        "title": "NVIDIA GeForce RTX 3090 24 GB", "board": r"\bRTX 3090$",
        "memory": 24 * GIB, "bandwidth": 936e9, "link": 32e9, "link_name": "PCIe 4.0 ×16",
        # with fp32 accumulation, as in training; with fp16 accumulation it is twice as fast
        "peak": {"bf16": 71 * T, "fp16": 71 * T, "tf32": 35.6 * T, "fp32": 35.6 * T,
                 "fp64": 0.556 * T},
        "source": "NVIDIA Ampere GA102 white paper (2021), appendix A",
    },
    "rtx4090": {
        "title": "NVIDIA GeForce RTX 4090 24 GB", "board": r"\bRTX 4090$",
        "memory": 24 * GIB, "bandwidth": 1008e9, "link": 32e9, "link_name": "PCIe 4.0 ×16",
        "peak": {"fp8": 330.3 * T, "bf16": 165.2 * T, "fp16": 165.2 * T, "tf32": 82.6 * T,
                 "fp32": 82.6 * T, "fp64": 1.29 * T},
        "source": "NVIDIA Ada GPU architecture white paper (2023), appendix A",
    },
    "laptop": {
        "title": "a laptop's CPU: 8 cores at 3 GHz with AVX2, 16 GB",
        "memory": 16 * GIB,
        "bandwidth": 51.2e9,
        "link": 10e9,
        "link_name": "memory shared by the ranks, an estimate",
        # without bf16 units, a product in bf16 is at most as fast as one in fp32
        "peak": {"bf16": 0.768 * T, "fp32": 0.768 * T, "fp64": 0.384 * T},
        "source": "8 cores × 3·10⁹ cycles/s × 2 FMA units × 8 fp32 lanes × 2 FLOP; two channels of "
        "DDR4-3200",
    },
}  # fmt: skip


def peak(device, precision):
    """Dense peak in FLOP/s of the device called `device`, in `precision`.

    `mixed` and `autocast` compute in bf16, or in fp16 on a device that is older than bf16.

    Raises
    ------
    KeyError
        When there is no such device, or it has no such precision.
    """
    peaks = DEVICES[device]["peak"]
    if precision in ("mixed", "autocast"):
        precision = "bf16" if "bf16" in peaks else "fp16"
    return peaks[precision]
