"""No public name of dtlib without a user: what nothing outside tests asks for is dead code."""

from public_names import ROOT, unused, unused_methods

# Kernels that a lesson builds: its text sends readers to them, or its tests prove both equal.
KERNELS = {
    "dtlib.scratch.context_parallel.gpt:ContextParallelGPT": "13_meshes",
    "dtlib.scratch.data_parallel.buckets:bucket_all_reduce": "08_ddp_from_scratch",
    "dtlib.scratch.data_parallel.overlap:OverlappedDataParallel": "08_ddp_from_scratch",
    "dtlib.scratch.pipeline.schedules:zero_bubble_h1": "12_pipeline_parallel",
    "dtlib.scratch.ring.tree:tree_all_reduce": "07_ranks_and_collectives",
    "dtlib.scratch.zero.stage2:ZeroStage2": "16_zero_from_scratch",
}
BY_NAME = {"dtlib.learn.figures:FigureCanvas", "dtlib.learn.figures:FigureManager"}  # by matplotlib
BY_COMMAND = {"dtlib.ranks.node:agent"}  # srun's command line calls it, see `ranks.slurm`
METHODS = {
    "dtlib.learn.rank_answers:RankAnswer.verdicts",  # a bank's answers in one launch: tests' own
    "dtlib.measure.ledger.collectives:CollectiveLog.ignore_compile_internals",  # torch asks it
    "dtlib.learn.verdicts:_WithoutSurroundings.visit_ClassDef",  # ast calls it, and the next
    "dtlib.learn.verdicts:_WithoutSurroundings.visit_FunctionDef",
    "dtlib.models.gpt:GPT.load_hf_state_dict",  # for the weights that `dtlib fetch gpt2` brings
    "dtlib.measure.clinic.dumps:_PlainOnly.find_class",  # pickle asks it
    "dtlib.ranks.aliases:_Finder.create_module",  # Python's import asks it
}


def test_every_public_name_has_a_user() -> None:
    assert set(unused()) == KERNELS.keys() | BY_NAME | BY_COMMAND, (
        "delete what is here alone, or use it"
    )


def test_every_public_method_has_a_user() -> None:
    assert set(unused_methods()) <= METHODS, "delete what is not here, or use it"


def test_a_kernel_is_what_its_lesson_uses() -> None:
    for kernel, room in KERNELS.items():
        texts = [path.read_text("utf-8") for path in (ROOT / "lessons_src" / room).glob("*.py")]
        assert any(kernel.partition(":")[2] in text for text in texts), kernel
