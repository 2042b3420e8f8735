"""The documents: pages, the numbers in them, and the student's text as it was written."""

import re
import sys
from pathlib import Path

import pytest
from capstone_cases import evidence, kept, rows

from dtlib.errors import BadInput
from dtlib.study.capstone import claims, contents, documents, review
from dtlib.study.capstone.evidence import Evidence
from dtlib.study.capstone.words import Words

HARD = (
    'Does #let x = $5$ of @group <label> scale "well"? *bold* _under_ `raw` [b] {c} \\ ~ // no'
    " /* none */ = h - l + e; äöüß Ψ → 50 ° 'it'"
)
MINE = {
    "title": "Ranks & <#co>", "author": "Ä. Müller @home", "question": HARD,
    "discussion": "On two ranks 67 % are left.", "limits": "One machine.", "purpose": "To train.",
    "claims": [{"study": "strong", "ranks": 2, "efficiency": 0.67}],
}  # fmt: skip


def written(out: Path, words: dict, **more) -> list[str]:
    out.mkdir(exist_ok=True)
    return list(documents.write(evidence(**more), Words.of(words), out))


def text_of(path: Path) -> list[str]:
    """The text of each page."""
    from pypdf import PdfReader

    return [" ".join(page.extract_text().split()) for page in PdfReader(path).pages]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    pytest.importorskip("typst", reason="typst is not installed: pip install -e '.[workshop]'")
    out = tmp_path_factory.mktemp("capstone")
    predicted = {"predicted": "2"}
    mine = [kept("gain of all levers", "1.31"), kept("gain of larger buckets", "19.1", "%",
            "simulated") | predicted]  # fmt: skip
    assert written(out, MINE, kept=mine) == [
        f"Typst sources: paper.typ, proposal.typ, slides.typ, rubric.typ in {out}",
        f"{out}/paper.pdf: 4 pages.",
        f"{out}/proposal.pdf: 1 page.",
        f"{out}/slides.pdf: 5 pages.",
        f"{out}/rubric.pdf: 1 page.",
    ]
    return out


@pytest.mark.slow
def test_the_paper_has_four_pages_and_the_numbers_of_the_tables(folder: Path) -> None:
    pages = text_of(folder / "paper.pdf")
    assert len(pages) == 4
    assert "an efficiency of 0.67 (median of 3 repeats, from 0.60 to 0.76)" in pages[0]
    assert "811,520 parameters" in pages[0] and "torch 2.14.1" in pages[0]
    assert "2 8 3 30.0 29.0 35.0 0.67 0.60 0.76" in pages[1]  # a row of the strong table
    assert "2 16 3 55.0 53.0 61.0 0.73 0.72 0.77" in pages[1]
    assert "42 % of a step is communication" in pages[2]
    assert "gain of all levers 1.31 times lesson 22 measured" in pages[2]
    assert "gain of larger buckets 19.1 % lesson 22 simulated" in pages[2]
    assert "gain of larger buckets 2 19.1 % lesson 22 simulated" in pages[3]
    assert "weak 2 2 ddp 16 61.00" in pages[3]


@pytest.mark.slow
def test_the_students_text_is_shown_as_it_is(folder: Path) -> None:
    for name in ("paper", "slides"):
        first = text_of(folder / f"{name}.pdf")[0].replace("’", "'")
        assert re.sub(r"\s", "", HARD) in re.sub(r"\s", "", first)
        assert "Ranks & <#co>" in first and "Ä. Müller @home" in first


@pytest.mark.slow
def test_request_slides_and_rubric(folder: Path) -> None:
    (proposal,) = text_of(folder / "proposal.pdf")
    assert "Request for 153 node-hours" in proposal
    assert "216.4 GPU-hours / 0.5872 368.6 GPU-hours arithmetic" in proposal
    assert "0.7273 of 1 measured" in proposal and "0.5872 of 1 simulated" in proposal
    slides = text_of(folder / "slides.pdf")
    assert [page.split()[0] for page in slides[1:]] == ["Method", "Result", "What", "Limits"]
    assert "153 node-hours (139 to 154)" in slides[4]
    assert "Spread" in text_of(folder / "rubric.pdf")[0]


@pytest.mark.slow
def test_a_second_time_makes_the_same_bytes(folder: Path, tmp_path: Path) -> None:
    mine = [kept("gain of all levers", "1.31"), kept("gain of larger buckets", "19.1", "%",
            "simulated") | {"predicted": "2"}]  # fmt: skip
    written(tmp_path / "again", MINE, kept=mine)
    for path in sorted(folder.iterdir()):
        assert (tmp_path / "again" / path.name).read_bytes() == path.read_bytes(), path.name


@pytest.mark.slow
def test_what_is_empty_is_asked_for(tmp_path: Path) -> None:
    pytest.importorskip("typst", reason="typst is not installed: pip install -e '.[workshop]'")
    told = written(tmp_path, {"question": "Does it scale?"}, kept=[], shares=[], commands=[])
    assert told[-1].startswith("You have still to write: author (Who wrote this, and where?), disc")
    assert "question (" not in told[-1]
    pages = text_of(tmp_path / "paper.pdf")
    assert len(pages) == 4
    assert "For you to write: What do the curves" in pages[2]
    assert "lessons 21 and 22 measure some" in pages[2] and "No run was profiled" in pages[2]


@pytest.mark.slow
def test_four_numbers_of_ranks_still_make_four_pages(tmp_path: Path) -> None:
    pytest.importorskip("typst", reason="typst is not installed: pip install -e '.[workshop]'")
    alike = {n: [0.04, 0.044, 0.042] for n in (1, 2, 4, 8)}
    shorter = {n: [seconds / n for seconds in each] for n, each in alike.items()}
    studies = {"strong": rows("strong", shorter), "weak": rows("weak", alike)}
    told = written(tmp_path, MINE | {"claims": [], "discussion": ""}, studies=studies, settings={})
    assert f"{tmp_path}/paper.pdf: 4 pages." in told
    assert "8 8 3 5.2 5.0 5.5 1.00 1.00 1.00" in text_of(tmp_path / "paper.pdf")[1]


@pytest.mark.slow
def test_too_many_words_are_told(tmp_path: Path) -> None:
    pytest.importorskip("typst", reason="typst is not installed: pip install -e '.[workshop]'")
    told = written(tmp_path, MINE | {"limits": "One machine.\n\n" * 60})
    (said,) = [line for line in told if "paper.pdf" in line]
    assert re.search(r": [5-7] pages; it should have 4, so make your words or tables shorter", said)


def test_without_typst_the_sources_are_there(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "typst", None)
    told = written(tmp_path, MINE)
    assert "the PDFs need the package typst" in told[1] and "pip install -e '.[works" in told[1]
    assert (tmp_path / "paper.typ").exists() and HARD in (tmp_path / "paper.json").read_text(
        "utf-8"
    ).replace('\\"', '"').replace("\\\\", "\\")
    assert not list(tmp_path.glob("*.pdf"))


def test_a_template_that_the_student_changed_is_kept(tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.setitem(sys.modules, "typst", None)
    (tmp_path / "paper.typ").write_text("my own layout")
    written(tmp_path, MINE)
    assert (tmp_path / "paper.typ.bak").read_text() == "my own layout"
    assert "paper.typ has changed since" in capsys.readouterr().out


def test_a_changed_template_is_kept_when_its_document_goes(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setitem(sys.modules, "typst", None)
    written(tmp_path, MINE)
    strong = {"strong": evidence().studies["strong"]}
    (tmp_path / "proposal.typ").write_text("my own layout")
    written(tmp_path, MINE, studies=strong)
    assert not (tmp_path / "proposal.typ").exists()
    assert (tmp_path / "proposal.typ.bak").read_text() == "my own layout"
    assert "proposal.typ has changed since" in capsys.readouterr().out
    written(tmp_path, MINE)
    written(tmp_path, MINE, studies=strong)  # one that nobody has changed needs no copy
    assert not (tmp_path / "proposal.typ.bak2").exists() and not capsys.readouterr().out


def test_an_efficiency_in_quotes_is_a_number() -> None:
    claim = {"study": "strong", "ranks": 2, "efficiency": "0.67"}
    words = Words.of({"claims": [claim]})
    assert claims.of_everything(evidence(), words) == []
    assert contents.claims(words)["rows"] == [["strong", "2", "0.67", "equals the median"]]


@pytest.mark.parametrize(
    ("ranks", "nodes", "gpus_per_node", "said"),
    [(2, 1, 2, ""), (3, 2, 2, ""), (4, 1, 1, "4 ranks and, by its nodes and gpus_per_node, 1 GPU,"),
     (4, 1, 3, "4 ranks and, by its nodes and gpus_per_node, 3 GPUs, so some ranks share one")],
)  # fmt: skip
def test_ranks_share_a_gpu_only_if_there_are_fewer_gpus(ranks, nodes, gpus_per_node, said) -> None:
    table = rows("strong", {1: [0.04, 0.05], ranks: [0.03, 0.04]})
    for row in table:
        row["gpus_per_node"] = 1
        if row["world_size"] > 1:
            row |= {"nodes": nodes, "gpus_per_node": gpus_per_node}
    faults = review.of_curve("strong", table)
    assert [fault.key for fault in faults] == ["gpus_and_ranks"] * bool(said)
    assert all(said in fault.sentence for fault in faults)


def test_one_study_alone_makes_a_paper_without_a_request(tmp_path: Path) -> None:
    (tmp_path / "proposal.pdf").write_text("of an earlier call, with a weak study")
    strong = {"strong": evidence().studies["strong"]}
    told = written(tmp_path, {}, studies=strong)
    assert told[0].startswith("No proposal: a request needs a measured efficiency")
    assert not list(tmp_path.glob("proposal.*"))
    assert "No weak scaling was measured" in (tmp_path / "paper.json").read_text("utf-8")


def test_no_study_makes_no_paper(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="there is no study of strong or weak scaling"):
        list(documents.write(Evidence(), Words(), tmp_path))
