"""One configuration: what is filled in, what is derived, what is refused and in which words."""

import dataclasses

import pytest

from dtlib.config import DEFAULTS, RunConfig, read_yaml
from dtlib.config.files import write_csv
from dtlib.config.flags import parameter_notes
from dtlib.config.plan import BatchPlan
from dtlib.errors import BadInput


def refused(**settings) -> str:
    with pytest.raises(BadInput) as caught:
        RunConfig.from_mapping({"task": "text", **settings})
    return str(caught.value)


def no_plan(world_size: int, **sizes) -> str:
    with pytest.raises(BadInput) as caught:
        RunConfig("images", **sizes).plan(world_size)
    return str(caught.value)


# field bug 3.03
def test_the_third_batch_size_is_derived_with_the_world_that_runs():
    def plan(world_size: int, **sizes) -> BatchPlan:
        return RunConfig("images", **sizes).plan(world_size)

    assert plan(8, micro_batch=2, accumulation=4).global_batch == 64
    assert plan(2, global_batch=64, micro_batch=4).accumulation == 8
    assert plan(2, global_batch=64, accumulation=4).micro_batch == 8
    assert plan(4, global_batch=64) == BatchPlan(64, 16, 1, 4)
    assert plan(2, micro_batch=8) == BatchPlan(DEFAULTS["images"]["global_batch"], 8, 4, 2)


# field bug 3.03
def test_contradictory_batch_sizes_are_refused_with_their_numbers():
    said = no_plan(2, global_batch=64, micro_batch=24, accumulation=2)
    assert "global batch 64 is not micro-batch 24 × accumulation 2 × 2 ranks = 96" in said
    assert "run 4 ranks" in no_plan(1, global_batch=8, micro_batch=2, accumulation=1)
    assert "256 is not divisible by micro-batch 2 × 7 ranks = 14" in no_plan(
        7, global_batch=256, micro_batch=2
    )
    assert "use a global batch of 8 or 12" in no_plan(4, global_batch=10)
    assert "use a global batch of 4." in no_plan(4, global_batch=3)


@pytest.mark.parametrize("world_size", [1, 2, 4])
@pytest.mark.parametrize("accumulation", [1, 2, 4])
def test_ranks_and_micro_steps_cover_the_global_batch_once(world_size, accumulation):
    plan = RunConfig("text", global_batch=32, accumulation=accumulation).plan(world_size)
    samples = [
        sample
        for micro_step in range(accumulation)
        for rank in range(world_size)
        for sample in range(32)[plan.micro_slice(micro_step, rank)]
    ]
    assert samples == list(range(32))


def test_a_number_of_yaml_is_a_number(tmp_path):
    path = tmp_path / "run.yaml"
    path.write_text("task: text\nlr: 1e-5\nsteps: 20\noptimizer: sgd\nmomentum: 1\nclip: null\n")
    config = RunConfig.from_mapping(read_yaml(path))
    assert (config.lr, config.steps, config.clip) == (1e-5, 20, None)
    assert isinstance(config.momentum, float)


@pytest.mark.parametrize(("settings", "words"), [
    ({"global_bach": 4}, "unknown key 'global_bach'. Did you mean 'global_batch'?"),
    ({"ranks": 0}, "ranks is 0; it must be at least 1"),
    ({"steps": 3, "epochs": 2}, "steps 3 and epochs 2 both say when to stop"),
    ({"lr": "fast"}, "lr is 'fast'; it must be a number"),
    ({"lr": 0}, "lr is 0.0; it must be a number above 0"),
    ({"lr": float("nan")}, "lr is nan"),
    ({"steps": 2.5}, "steps is 2.5; it must be a whole number"),
    ({"steps": True}, "steps is True; it must be a whole number"),
    ({"deterministic": "perhaps"}, "deterministic is 'perhaps'; it must be true or false"),
    ({"precision": "fp8"}, "precision 'fp8' is not offered; choose from fp32, tf32, bf16"),
    ({"optimizer": "adam"}, "Did you mean 'adamw'?"),
    ({"schedule": "cosin"}, "Did you mean 'cosine'?"),
    ({"precision": "fp64", "device": "mps"}, "fp64 does not exist on mps"),
    ({"dropout": 1.0}, "dropout is 1.0; it must be below 1"),
    ({"width": 32}, "width 32 has no effect with task text; leave it out, or use images"),
    ({"resume": True}, "resume needs out"),
    ({"seed": 2**80}, "it must be at most 4294967295"),
    ({"timeout": 1e12}, "timeout is 1000000000000.0; it must be at most 1000000000"),
    ({"momentum": float("inf")}, "momentum is inf; it must be at least 0 and finite"),
    ({"workers": 2}, "workers 2 has no effect with task text"),
])  # fmt: skip
def test_a_wrong_value_is_refused_in_one_sentence(settings, words):
    said = refused(**settings)
    assert words in said
    assert "\n" not in said


def test_an_unknown_task_is_refused():
    with pytest.raises(
        BadInput, match=r"unknown task 'txt'; choose from images, text\. Did you mean"
    ):
        RunConfig("txt")
    with pytest.raises(BadInput, match="names no task"):
        RunConfig.from_mapping({"steps": 3})


def test_defaults_follow_from_task_optimizer_and_device():
    assert RunConfig("images").resolved("cpu").model == "resnet18-narrow"
    assert RunConfig("images").resolved("cuda").model == "resnet18"
    config = RunConfig("text").resolved("cpu")
    assert (config.model, config.data, config.steps) == ("nano", "grammar", 100)
    assert dataclasses.replace(RunConfig("text"), optimizer="sgd").resolved("cpu").lr == 0.1
    kept = RunConfig("text", lr=0.5, epochs=2).resolved("cpu")
    assert (kept.lr, kept.steps, kept.epochs) == (0.5, None, 2)
    assert config.resolved("cpu") == config


def test_a_configuration_survives_a_mapping():
    config = RunConfig("images", lr=1e-3, clip=1.0, resume=True, out="there")
    assert RunConfig.from_mapping(dataclasses.asdict(config)) == config


def test_every_setting_has_its_line_of_help():
    notes = parameter_notes(RunConfig)
    assert [*notes] == [field.name for field in dataclasses.fields(RunConfig)]
    assert [name for name, note in notes.items() if not (note.text and note.group)] == []


def test_a_configuration_is_read_as_an_editor_saved_it(tmp_path):
    for encoding in ("utf-8", "utf-8-sig", "utf-16", "cp1252"):
        (tmp_path / "run.yaml").write_bytes("task: text\nout: größe\n".encode(encoding))
        assert read_yaml(tmp_path / "run.yaml") == {"task": "text", "out": "größe"}


def test_a_table_that_somebody_changed_is_copied_before_it_is_written(tmp_path, capsys):
    path, rows = tmp_path / "t.csv", [{"a": 1, "b": None}]
    for changed in (None, b"a,b\r\n9,9\r\n", b"a,b,mine\n1,2,3\n", b"a;b\n1;2\n"):
        if changed:
            path.write_bytes(changed)
        write_csv(path, ["a", "b"], rows)
        assert path.read_bytes() == b"a,b\r\n1,\r\n"
    assert (tmp_path / "t.csv.bak").read_bytes() == b"a,b,mine\n1,2,3\n"
    assert (tmp_path / "t.csv.bak2").read_bytes() == b"a;b\n1;2\n"
    assert capsys.readouterr().out.count("it is kept as") == 2
