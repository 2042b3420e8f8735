"""Studies: every run once, differences by name, one tidy table, the same figure again."""

import csv
import dataclasses
import json
import re
import sys

import pytest

from dtlib import study
from dtlib.cli import simulate
from dtlib.config import RunConfig
from dtlib.config.files import write_csv
from dtlib.data import open_text
from dtlib.errors import BadInput, DtlibError, Stopped, Unavailable
from dtlib.measure.ledger import KINDS, Page
from dtlib.measure.ledger.collectives import Tally
from dtlib.sim import memory
from dtlib.sim.collectives import ring_wire_bytes
from dtlib.study import differences, family, reading, rows, running, shards, strategies
from dtlib.study.facts import Facts
from dtlib.training import start
from dtlib.training.record import COLUMNS, Run

# nano with the 78 words of the grammar: (V + 64)·128 + 4·(12·128² + 13·128) + 2·128
PSI = 811_520
CSV = "strategies.csv"
SETTINGS = {"task": "text", "model": "nano", "global_batch": 8, "steps": 4}


def page_of(world_size: int = 2, rank: int = 0) -> Page:
    """A page of DDP at nano as it was measured: nothing beside the formulas but 8 bytes."""
    zeros = dict.fromkeys(KINDS, 0)
    held = {**zeros, "parameters": 4 * PSI, "optimizer": 8 * PSI, "counters": 208}
    before = {**held, "gradients": 4 * PSI}
    # 8,768,000 bytes for 4 windows, 2,048 of labels and 12 of the loss's scalars
    most = {**before, "activations": 8_768_000 + 2_048 + 12}
    sent = 4 * PSI + 8
    tally = Tally(5, sent, ring_wire_bytes("all_reduce", sent, world_size))
    return Page(rank, world_size, "cpu", held, before, most, held, {"all_reduce": tally})


def finished(config: RunConfig, page: Page) -> Run:
    """Write the records of a run that is done, and read them."""
    folder = family.Path(config.out)
    folder.mkdir(parents=True, exist_ok=True)
    resolved = config.resolved("cpu")
    plan = resolved.plan(page.world_size)
    settings = {**dataclasses.asdict(resolved), **plan.columns()}
    summary = {"loss": 3.5, "parameters": PSI, "world_size": page.world_size,
               "ledger": [page.to_dict()], "step_time_s": 0.25}  # fmt: skip
    (folder / "config.json").write_text(json.dumps(settings))
    (folder / "summary.json").write_text(json.dumps(summary))
    return Run.load(folder)


@pytest.fixture
def trains(monkeypatch):
    """Runs that were really carried out: their folders' names, and whether they were resumed."""
    carried_out: list[tuple[str, bool]] = []
    raises: dict[str, Exception] = {}

    def train(config: RunConfig) -> Run:
        name = family.Path(config.out).name
        carried_out.append((name, config.resume))
        assert config.checkpoint_every == 0  # which nobody would read
        if name in raises:
            (family.Path(config.out)).mkdir(parents=True, exist_ok=True)
            (family.Path(config.out) / "config.json").write_text("{}")
            raise raises[name]
        (family.Path(config.out) / "checkpoints").mkdir(parents=True)
        return finished(config, page_of(config.ranks))

    monkeypatch.setattr(start, "train", train)
    train.raises, train.carried_out = raises, carried_out
    return train


def plans():
    return list(strategies.plans(SETTINGS, [1, 2], ["single", "ddp"]))


def test_every_strategy_at_every_number_of_ranks_and_single_at_one():
    names = [planned.name for planned in strategies.plans({"task": "text"}, [1, 2, 4])]
    assert names[:4] == ["single-1", "ddp-1", "ddp-2", "ddp-4"]
    assert not any(name.startswith(("single-2", "dp-")) for name in names)
    on_meshes = [name for name in names if "=" in name]  # on four ranks, beside those without one
    assert sorted(on_meshes) == [
        "fsdp-4-data=2-tensor=2", "pipeline-4-pipeline=2-data=2", "tensor-4-data=2-tensor=2"
    ]  # fmt: skip
    assert {"fsdp-4", "tensor-4", "pipeline-4"} <= set(names) and "context-4" not in names
    assert strategies.names(["context"]) == ["context"]
    assert {planned.config.ledger for planned in plans()} == {True}
    assert set(strategies.names()) == set(strategies.strategies.available()) - {"dp", "context"}
    with pytest.raises(
        BadInput, match=r"unknown strategy 'zero9'; choose from .* Did you mean 'zero"
    ):
        strategies.names(["zero9"])


def test_a_finished_run_is_not_repeated_and_leaves_no_weights(tmp_path, trains):
    first = list(family.carry_out(tmp_path, plans()))
    assert [o.status for o in first] == ["done"] * 3
    assert not list(tmp_path.glob("*/checkpoints"))
    again = list(family.carry_out(tmp_path, plans()))
    assert len(trains.carried_out) == 3
    assert [o.run.summary for o in again] == [o.run.summary for o in first]


def test_a_stopped_study_goes_on_where_it_stopped(tmp_path, trains):
    trains.raises["ddp-1"] = Stopped("stopped after step 2 of 4")
    with pytest.raises(Stopped):
        list(family.carry_out(tmp_path, plans()))
    del trains.raises["ddp-1"]
    list(family.carry_out(tmp_path, plans()))
    expected = [("single-1", False), ("ddp-1", False), ("ddp-1", True), ("ddp-2", False)]
    assert trains.carried_out == expected


def test_what_cannot_run_here_is_shown_with_its_remedy_and_the_rest_goes_on(tmp_path, trains):
    trains.raises["ddp-1"] = Unavailable("ddp needs a compiler; install g++.")
    trains.raises["ddp-2"] = BadInput("fp64 is not for ddp; use fp32.")
    outcomes = list(family.carry_out(tmp_path, plans()))
    assert [o.status for o in outcomes] == ["done", "unavailable", "refused"]
    text = reading.table(rows.tidy(outcomes, "strategies"))
    assert "ddp on 1: unavailable: ddp needs a compiler; install g++." in text
    assert "ddp on 2: refused: fp64 is not for ddp; use fp32." in text


def test_settings_that_no_run_can_have_are_refused(tmp_path, trains):
    trains.raises["ddp-1"] = trains.raises["ddp-2"] = BadInput("GPT shape 'nanoo' is unknown.")
    words = ["strategies", "--strategies", "ddp", "--ranks", "1,2", "--out", str(tmp_path / "s")]
    with pytest.raises(BadInput, match="'nanoo' is unknown"):
        study.main(words)
    assert not (tmp_path / "s" / CSV).exists()


def test_a_study_of_other_settings_has_a_folder_of_its_own(tmp_path):
    family.open_folder(tmp_path, "strategies", {"task": "text", "steps": "4", "lr": None})
    family.open_folder(tmp_path, "strategies", {"task": "text", "steps": "4"})
    with pytest.raises(BadInput, match=r"has steps 4 and this one has 5; .* choose another --out"):
        family.open_folder(tmp_path, "strategies", {"task": "text", "steps": "5"})


def facts(tmp_path, strategy="ddp", page=None, **settings) -> Facts:
    page = page or page_of()
    given = {**SETTINGS, "strategy": strategy, "ranks": page.world_size, **settings}
    config = RunConfig.from_mapping({**given, "out": str(tmp_path / strategy)})
    return Facts.of(finished(config, page))


def test_a_measured_step_of_ddp_is_explained_to_the_byte(tmp_path):
    lines = {line.what: line for line in differences.compare(facts(tmp_path))}
    assert {what: line.unexplained for what, line in lines.items() if line.unexplained} == {}
    assert lines["parameters"].predicted == 4 * PSI
    assert lines["all_reduce"].predicted == 4 * PSI
    assert [d.size for d in lines["all_reduce"].differences] == [8]


@pytest.mark.parametrize("what", ["parameters", "gradients", "optimizer", "activations"])
def test_a_byte_that_no_name_accounts_for_is_unexplained(tmp_path, what):
    page = page_of()
    for moment in (page.between_steps, page.before_update, page.most):
        moment[what] = moment.get(what, 0) + 1
    found = differences.compare(facts(tmp_path, page=page))
    assert {line.what: line.unexplained for line in found if line.unexplained} == {what: 1}


@pytest.mark.parametrize(("strategy", "kept"), [("ddp", 6_627_340), ("fsdp", 4_435_468)])
def test_what_16_bits_save_was_measured_on_a_cpu_and_has_its_names(tmp_path, strategy, kept):
    page = page_of()
    page.most["activations"] = kept
    found = differences.compare(facts(tmp_path, strategy, page, precision="bf16"))
    assert next(line for line in found if line.what == "activations").unexplained == 0


def test_shards_by_hand(tmp_path):
    of = facts(tmp_path, "fsdp", page_of(4, rank=3))
    # 78 rows of the token embedding: 20, 20, 20 and 18; every other tensor has a multiple of 4
    assert shards.shard(of)[0] == (PSI - 78 * 128) // 4 + 18 * 128
    assert shards.padded(of) == PSI + 2 * 128
    assert [sum(group) for group in of.groups] == [804_608, 6_912]
    assert sum(sum(group) for group in of.groups) == PSI
    root = (78 + 64) * 128 + 2 * 128
    assert shards.padded(of, root=True, ranks=1) == root


def test_rows_go_through_a_csv_file_and_draw_the_same_figure(tmp_path, trains, capsys):
    planned = [*plans(), *strategies.plans(SETTINGS, [1], ["infinity"])]
    trains.raises["infinity-1"] = Unavailable("no NVMe; name a folder.")
    outcomes = list(family.carry_out(tmp_path, planned))
    table = rows.tidy(outcomes, "strategies")
    write_csv(tmp_path / CSV, [*rows.COLUMNS, *rows.LEDGER], table)
    assert rows.read(tmp_path / CSV) == table  # a strategy called infinity is no number
    cells = list(csv.reader((tmp_path / CSV).open()))
    assert cells[0][: len(COLUMNS)] == list(COLUMNS)
    with (tmp_path / "sheet.csv").open("w", encoding="utf-16", newline="") as file:
        saved = [[re.sub(r"^(-?\d+)\.(\d)", r"\1,\2", cell) for cell in line] for line in cells]
        csv.writer(file, delimiter=";").writerows(saved)
    assert rows.read(tmp_path / "sheet.csv") == table

    assert study.main(["figure", str(tmp_path)]) == 0
    assert (tmp_path / "strategies.png").read_bytes().startswith(b"\x89PNG")
    assert b"Bars of MB held by rank 0" in (tmp_path / "strategies.png").read_bytes()
    text = (tmp_path / "strategies.txt").read_text()
    assert text.startswith(reading.table(table) + "\n")
    assert "20 % exposed communication: not measured here (no run has a --profile)" in text
    assert "ddp on 2: parameters 3.246, gradients 3.246" in reading.alt_text(table)
    bars = reading.figure(table).axes[0].patches
    widths = [bar.get_width() for bar in bars if bar.get_hatch() == "//"]
    assert widths == [4 * PSI / 1e6] * 3 + [0]  # the last one is the legend's


@pytest.fixture
def gossip(tmp_path_factory, monkeypatch):
    """A strategy that nothing but its own file knows."""
    folder = tmp_path_factory.mktemp("strategies")
    (folder / "gossip.py").write_text(
        "from dtlib.strategies.ddp import DDP\n"
        "STRATEGIES = {'gossip': type('Gossip', (DDP,), {})}\n"
    )
    package = strategies.strategies
    monkeypatch.setattr(package, "__path__", [*package.__path__, str(folder)])
    yield "gossip"
    sys.modules.pop("dtlib.strategies.gossip", None)
    vars(package).pop("gossip", None)


def test_a_study_survives_a_strategy_without_a_formula(tmp_path, trains, gossip, capsys):
    known = [memory.knows(name) for name in strategies.names()]
    assert gossip in strategies.names() and known == sorted(known, reverse=True)
    words = ["strategies", "text", "--model", "nano", "--steps", "4", "--global_batch", "8"]
    words += ["--strategies", f"ddp,{gossip}", "--ranks", "2", "--out", str(tmp_path)]
    assert study.main(words) == 0
    sentence = "sim has no formula for strategy gossip, so what it predicts is left blank."
    assert capsys.readouterr().out.count(sentence) == 1
    known, unknown = rows.read(tmp_path / CSV)
    predicted = [name for name in unknown if name.startswith("predicted_")]
    assert {unknown[name] for name in [*predicted, "unexplained_bytes"]} == {None}
    assert known["predicted_parameters_bytes"] == unknown["parameters_bytes"] == 4 * PSI
    assert known["unexplained_bytes"] == 0
    named = csv.DictReader((tmp_path / running.DIFFERENCES_CSV).open())
    assert {row["strategy"] for row in named} == {"ddp"}
    assert study.main(["figure", str(tmp_path)]) == 0
    assert sentence in capsys.readouterr().out


@pytest.mark.slow  # it loads transformers
def test_of_a_model_of_transformers_a_study_measures_and_predicts_nothing(tmp_path, trains, capsys):
    """Whose tensors no record holds, and of which `--lora` trains only some."""
    from transformers import LlamaConfig

    words = open_text("grammar").tokenizer.vocab_size
    LlamaConfig(vocab_size=words).save_pretrained(tmp_path / "llama")
    (tmp_path / "llama" / "model.safetensors").touch()
    model = f"hf:{tmp_path / 'llama'}"
    words = ["strategies", "text", "--model", model, "--lora", "2", "--steps", "4"]
    words += ["--strategies", "ddp,fsdp", "--ranks", "2", "--out", str(tmp_path / "out")]
    assert study.main([*words, "--max_length", "8", "--global_batch", "8"]) == 0
    sentence = f"A study has no formula for the model {model}, so what it predicts is left blank."
    assert capsys.readouterr().out.count(sentence) == 1
    for row in rows.read(tmp_path / "out" / CSV):
        blank = [row[name] for name in row if name.startswith("predicted_")]
        assert {*blank, row["unexplained_bytes"]} == {None}
        assert row["parameters_bytes"] == 4 * PSI


def test_sim_says_that_it_has_no_formula_for_a_strategy(gossip):
    with pytest.raises(BadInput, match="sim has no formula for strategy gossip; it predicts sing"):
        simulate.parse_memory(["--strategy", gossip])


def test_another_csv_file_is_refused(tmp_path):
    (tmp_path / "other.csv").write_text("a,b\n1,2\n")
    with pytest.raises(BadInput, match="it has no column study; name a study's folder"):
        study.main(["figure", str(tmp_path / "other.csv")])
    with pytest.raises(BadInput, match="cannot be read"):
        study.main(["figure", str(tmp_path / "none.csv")])


def test_the_command_prints_the_tables_and_says_what_failed(tmp_path, trains, capsys):
    words = ["strategies", "text", "--model", "nano", "--steps", "4", "--global_batch", "8"]
    words += ["--strategies", "single,ddp", "--ranks", "1,2", "--out", str(tmp_path / "s")]
    assert study.main(words) == 0
    printed = capsys.readouterr().out
    assert "ddp-2: done, loss 3.500000" in printed
    assert f"{4 * PSI:,}" in printed
    assert "the loop's own" in printed
    named = list(csv.DictReader((tmp_path / "s" / running.DIFFERENCES_CSV).open()))
    assert {row["because"] for row in named} >= {"equal"}
    trains.raises["ddp-4"] = DtlibError("the loss is nan in step 3")
    with pytest.raises(DtlibError, match="ddp-4"):
        study.main([*words[:-4], "--ranks", "4", *words[-2:]])
    with pytest.raises(BadInput, match="--ranks 'two' must be whole numbers"):
        study.main(["strategies", "--ranks", "two"])


@pytest.mark.parametrize("content", ["name\nfoo\n", "name\n1,2\n"])
def test_a_foreign_csv_file_is_a_sentence(content, tmp_path):
    path = tmp_path / "other.csv"
    path.write_text(content)
    with pytest.raises(BadInput, match="other"):
        rows.read(path)


@pytest.mark.parametrize(("restart", "left"), [(None, []), ("0", []), ("1", ["ranks1"])])
def test_a_lessons_study_begins_anew_unless_its_job_was_requeued(
    tmp_path, monkeypatch, restart, left
):
    monkeypatch.delenv("SLURM_RESTART_COUNT", raising=False)
    if restart:
        monkeypatch.setenv("SLURM_RESTART_COUNT", restart)
    (tmp_path / "strong" / "ranks1").mkdir(parents=True)
    assert [path.name for path in family.begin(tmp_path / "strong").iterdir()] == left
