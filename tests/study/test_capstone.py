"""What a capstone may state: the usual errors are refused, and the arithmetic can be repeated."""

import json
import math
from pathlib import Path

import pytest
from capstone_cases import STRONG, WEAK, evidence, kept, rows

from dtlib import cli
from dtlib.config.files import write_csv
from dtlib.errors import BadInput
from dtlib.sim import hardware
from dtlib.study.capstone import claims, contents, gains, review
from dtlib.study.capstone.evidence import gather
from dtlib.study.capstone.request import Request, costs, short
from dtlib.study.capstone.words import BEGINNING, TITLE, Words, read
from dtlib.training.record import COLUMNS


def keys(faults: list[review.Fault]) -> list[str]:
    return [fault.key for fault in faults]


# --- the checker --------------------------------------------------------------------------------


def test_nothing_is_wrong_with_two_good_studies() -> None:
    found = evidence()
    claimed = [{"study": "strong", "ranks": 2, "efficiency": 0.67},
               {"study": "weak", "ranks": 16, "efficiency": 0.5, "extrapolated": True}]  # fmt: skip
    assert claims.of_everything(found, Words.of({"claims": claimed})) == []


FOUR = STRONG | {4: [0.026, 0.025, 0.027]}
ROWS = rows("strong", STRONG)
CURVES = {
    "mixed": rows("strong", {1: STRONG[1]}) + rows("weak", {2: WEAK[2]}),
    "one_repeat": rows("strong", {1: [0.04], 2: [0.03]}),
    "no_baseline": rows("strong", {2: STRONG[2], 4: STRONG[2]}),
    "wrong_baseline": [row | {"strategy": "ddp"} for row in ROWS],
    "mfu": [row | {"mfu": 1.3} for row in ROWS],
    "devices": [row | {"device": f"card {row['world_size']}"} for row in ROWS],
    "confounded": [row | {"precision": f"fp{row['world_size']}"} for row in ROWS],
    "gpus_and_ranks": [row | {"gpus_per_node": 1} for row in ROWS],
    "not_measured": [row | {"measured_or_simulated": "simulated"} for row in ROWS],
    "untimed": [row | {"step_time_s": None} for row in ROWS],
    "no_curve": rows("strong", {1: STRONG[1]}),
    "unpaired": [row for row in ROWS if (row["world_size"], row["repeat"]) != (1, 2)],
    "empty": [],
}


@pytest.mark.parametrize("key", CURVES)
def test_an_error_in_a_curve_gets_its_sentence(key: str) -> None:
    faults = review.of_curve("strong", CURVES[key])
    assert key in keys(faults)
    said = next(fault.sentence for fault in faults if fault.key == key)
    assert ("strong" in said or key == "gpus_and_ranks") and said.endswith(".")
    assert ":" in said or ";" in said  # what is wrong, then what to do


def test_a_weak_curve_at_one_batch_is_strong() -> None:
    same = [row | {"global_batch": 8} for row in rows("weak", WEAK)]
    (fault,) = review.of_curve("weak", same)
    assert fault.key == "mixed"
    assert "a global batch of 8 on 1 rank and of 8 on 2" in fault.sentence
    assert "move the runs of strong scaling" in fault.sentence


def test_a_batch_that_breaks_out_between_the_ends_is_found() -> None:
    odd = [row | {"global_batch": 16} if row["world_size"] == 2 else row
           for row in rows("strong", FOUR)]  # fmt: skip
    assert keys(review.of_curve("strong", odd)) == ["mixed"]


@pytest.mark.parametrize(
    ("claim", "key"),
    [
        ({"ranks": 2, "efficiency": 0.67}, None),
        ({"ranks": 2, "efficiency": 0.76}, "best_of"),
        ({"ranks": 2, "efficiency": 0.69}, "best_of"),  # the best times of both columns
        ({"ranks": 2, "efficiency": 0.68}, "mean"),
        ({"ranks": 2, "efficiency": 1.33}, "speedup"),
        ({"ranks": 2, "efficiency": 67}, "percent"),
        ({"ranks": 2, "efficiency": 0.93}, "not_measured"),
        ({"ranks": 4, "efficiency": 0.58}, "wrong_baseline"),
        ({"ranks": 8, "efficiency": 0.4}, "extrapolated"),
        ({"ranks": 8, "efficiency": 0.4, "extrapolated": True}, None),
        ({"ranks": 3, "efficiency": 0.6}, "extrapolated"),
        ({"gpus": 2, "efficiency": 0.67}, "gpus_and_ranks"),
        ({"ranks": "two", "efficiency": 0.67}, "no_number"),
        ({"study": "weak", "ranks": 2, "efficiency": 0.67}, "no_study"),
    ],
)  # fmt: skip
def test_a_claim_is_told_which_number_it_is(claim, key) -> None:
    studies = {"strong": rows("strong", FOUR)}
    found = claims.of_claim({"study": "strong"} | claim, studies)
    assert keys(found) == ([key] if key else [])
    assert all(str(claim["efficiency"]) in fault.sentence for fault in found)


def test_weak_scaling_with_the_formula_of_strong_is_told_so() -> None:
    studies = {"weak": rows("weak", WEAK)}
    (fault,) = claims.of_claim({"study": "weak", "ranks": 2, "efficiency": 0.36}, studies)
    assert fault.key == "mixed" and "is 0.73" in fault.sentence


@pytest.mark.parametrize(
    ("row", "key"),
    [
        (kept("gain", "1.2", source="measured, within the noise"), None),
        (kept("gain", "1.2", source="simulated"), None),
        (kept("gain", "1.2", source=""), "no_source"),
        (kept("gain", "1.2", source="felt"), "no_source"),
        (kept("MFU of GPT-2", "130", "%"), "mfu"),
        (kept("MFU of GPT-2", "0.41", "of 1"), None),
    ],
)
def test_a_kept_number_says_where_it_comes_from(row, key) -> None:
    assert keys(review.of_kept([row])) == ([key] if key else [])


@pytest.mark.parametrize(
    ("text", "refused"),
    [
        ("We keep 67 % on two ranks.", False),
        ("We lose 33 % on two ranks.", False),
        ("All levers give 1.31 times the throughput.", False),
        ("We keep 93 % on two ranks.", True),
        ("It is 3.5 times as fast.", True),
        ("We keep 93 %, as simulated.", False),
        ("NVIDIA has 84 % on 8 GPUs (https://github.com/NVIDIA).", False),
        ("Simulated, it is 93 %. We measured 92 %.", True),
        ("We used 2 ranks, 20 steps and seed 0.", False),
    ],
)
def test_a_number_in_the_text_is_in_the_records(text, refused) -> None:
    found = claims.of_words(Words.of({"discussion": text}), evidence())
    assert keys(found) == ["not_measured"] * refused


# --- the request --------------------------------------------------------------------------------


def test_every_line_of_the_arithmetic_follows_from_those_above() -> None:
    wanted = Request(model="gpt2", tokens=2e9, gpus=8, gpus_per_node=4, mfu=0.5, runs=5,
                     reserve=0.2, study="strong")  # fmt: skip
    found = costs(wanted, evidence().studies)
    lines = {line.what: line for line in found.lines}
    flop = lines["tokens of a run"].value * lines["FLOP of a token"].value
    assert lines["FLOP of a run"].value == flop
    assert lines["peak of a GPU"].value == hardware.peak("h100", "bf16")
    alone = flop / (lines["peak of a GPU"].value * 0.5) / 3600
    assert lines["one GPU alone"].value == pytest.approx(alone)
    measured = lines["measured efficiency"]
    assert (measured.value, measured.source) == (pytest.approx(2 / 3), "measured")
    # half of a step on one rank is lost on two ranks, so seven times that on eight
    carried = lines["efficiency on 8 GPUs"]
    assert (carried.value, carried.source) == (pytest.approx(1 / (1 + 7 * 0.5)), "simulated")
    assert lines["one run"].value == pytest.approx(alone / carried.value / 4)
    assert lines["request"].value == math.ceil(lines["one run"].value * 5 * 1.2) == found.middle
    assert found.best < found.middle < found.worst
    assert all(line.unit and line.source for line in found.lines)


def test_an_efficiency_on_as_many_ranks_is_not_carried_on() -> None:
    found = costs(Request(gpus=2, gpus_per_node=2), evidence().studies)
    assert "simulated" not in {line.source for line in found.lines}
    assert contents.beyond(Request(gpus=2, gpus_per_node=2), found) == ""
    assert "was measured on 2 ranks, and 16 GPUs are" in contents.beyond(Request(), found)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"gpus": 12}, "ask for 2 nodes, which have 16 GPUs"),
        ({"mfu": 1.2}, "no device computes faster than its peak"),
        ({"tokens": "many"}, "tokens is 'many'"),
        ({"runs": 0}, "runs is 0"),
        ({"runs": 2.5}, "runs is 2.5"),
        ({"modell": "gpt2"}, "Did you mean 'model'?"),
        ({"model": "gpt3"}, "unknown model 'gpt3'"),
        ({"study": "sensitivity"}, "study .sensitivity. is not offered"),
    ],
)
def test_a_request_that_cannot_be_is_refused(given, said) -> None:
    with pytest.raises(BadInput, match=said.replace("?", r"\?")):
        Request.of(given)


def test_a_request_needs_a_measured_efficiency() -> None:
    with pytest.raises(BadInput, match="dtlib study weak text --ranks 1,2"):
        costs(Request(), {"strong": ROWS})


@pytest.mark.parametrize(
    ("value", "said"),
    [(0, "0"), (0.58724, "0.5872"), (1234.5, "1,234"), (99999.0, "99,999"), (3e10, "3·10¹⁰"),
     (8.5437e8, "8.544·10⁸"), (2e-5, "2·10⁻⁵")],
)  # fmt: skip
def test_numbers_are_written_as_people_write_them(value, said) -> None:
    assert short(value) == said


# --- words and evidence -------------------------------------------------------------------------


def test_the_file_of_words_is_begun_once_and_asks(tmp_path: Path) -> None:
    file = tmp_path / "my_paper.yaml"
    assert read(file).missing == ["author", "question", "discussion", "limits", "purpose"]
    assert file.read_text() == BEGINNING
    odd = "Does #it, $it, <it>: scale?"
    for name in ("author", "question"):
        file.write_text(BEGINNING.replace(f"{name}: |\n", f"{name}: |\n  {odd}\n"))
        assert getattr(read(file), name) == odd
    file.write_text(BEGINNING.replace(TITLE, odd))
    assert read(file).title == odd


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"qestion": "?"}, "Did you mean 'question'"),
        ({"claims": ["0.8 on 2"]}, "claims in your words must be a list of entries"),
        ({"helped": "gain"}, "helped in your words must be a list of texts"),
        ({"request": 16}, "request in your words is 16"),
    ],
)
def test_words_of_the_wrong_kind_are_refused(given, said) -> None:
    with pytest.raises(BadInput, match=said):
        Words.of(given)


def test_kept_values_have_four_digits_and_may_be_words() -> None:
    given = [kept("gain of a lever", "2.74282"), kept("gain in words", "none", "")]
    rows_ = gains.helped(evidence(kept=given), ())["table"]["rows"]
    assert [row[1] for row in rows_] == ["2.743 times", "none"]


def test_a_gain_within_the_noise_is_shown_as_no_result() -> None:
    found = evidence(
        kept=[kept("gain of larger buckets", "19.1", "%", "measured, within the noise")]
    )
    ((what, said, where, source),) = gains.helped(found, ())["table"]["rows"]
    assert (what, where, source) == ("gain of larger buckets", "lesson 22", "measured")
    assert said == "19.1 %; within the noise, so no result"
    with pytest.raises(BadInput, match=r"no row “gain of large buckets”\. Did you mean"):
        gains.helped(found, ["gain of large buckets"])


def save(folder: Path, kind: str, times: dict[int, list[float]]) -> Path:
    """A study as `dtlib study` leaves it, with the records of its runs."""
    names = []
    for row in rows(kind, times):
        names.append(f"ranks{row['world_size']}-repeat{row['repeat']}")
        run = folder / names[-1]
        run.mkdir(parents=True)
        (run / "config.json").write_text(
            json.dumps({"optimizer": "adamw", "lr": 0.003, "steps": 20})
        )
        shares = [{"compute": 0.5, "communication": 0.3 + rank / 10, "input": 0.1,
                   "idle": 0.1 - rank / 10} for rank in range(row["world_size"])]  # fmt: skip
        told = {"world_size": row["world_size"], "parameters": 811520,
                "versions": {"torch": "2.14.1"}, "profile": {"shares": shares}}  # fmt: skip
        (run / "summary.json").write_text(json.dumps(told))
    settings = {"study": kind, "task": "text", "global_batch": 8, "runs": names}
    (folder / "study.json").write_text(json.dumps(settings))
    write_csv(folder / f"{kind}.csv", COLUMNS, rows(kind, times))
    return folder


def test_the_records_of_the_runs_are_gathered(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    save(tmp_path / "studies" / "strong", "strong", STRONG)
    save(tmp_path / "studies" / "weak", "weak", WEAK)
    found = gather([tmp_path / "studies"])
    assert found.studies == {"strong": rows("strong", STRONG), "weak": rows("weak", WEAK)}
    assert found.versions == {"torch": "2.14.1"} and found.kept == []
    assert found.settings["weak"] == {"optimizer": "adamw", "lr": 0.003, "steps": 20,
                                      "parameters": 811520}  # fmt: skip
    assert [row["repeat"] for row in found.shares] == [0, 1, 2] * 2
    assert found.shares[0]["communication"] == pytest.approx(0.35)  # the mean over two ranks
    assert found.commands[0] == "dtlib study strong text --ranks 1,2 --repeats 3 --global-batch 8"
    save(tmp_path / "more" / "weak", "weak", WEAK)
    with pytest.raises(BadInput, match="there are 2 studies of kind weak"):
        gather([tmp_path / "studies", tmp_path / "more"])
    (tmp_path / "none").mkdir()
    with pytest.raises(BadInput, match="holds no table of a study"):
        gather([tmp_path / "none"])


def test_the_command_refuses_a_paper_with_errors(tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    save(tmp_path / "strong", "strong", {1: [0.04], 2: [0.03]})
    assert cli.main(["capstone", "strong"]) == 2
    said = capsys.readouterr()
    told = said.out.splitlines()[1]
    assert told.startswith("- On 1 and 2 ranks your strong study has a single repeat, which")
    assert "a reviewer would refuse this paper for 1 error: mend" in said.err
    assert not (tmp_path / "capstone").exists()
