"""`--model hf:FOLDER`: models of transformers in the loop, under every strategy, and out again."""

from pathlib import Path

import pytest
import torch

import dtlib
from dtlib import launch
from dtlib.data import open_text
from dtlib.training.checkpoint.export import export
from dtlib.training.record import Run
from tests.strategy_runs import HERE, SMALL, TABLE, figures, train

pytestmark = [pytest.mark.spread, pytest.mark.usefixtures("own_folder")]
KINDS = ("gpt2", "llama")
CONTEXT = 32
IDS = dict.fromkeys(("bos_token_id", "eos_token_id"))


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory, story: str) -> Path:
    """A folder of tiny models whose vocabulary is that of the story's characters."""
    from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

    folder, size = tmp_path_factory.mktemp("models"), characters(story)
    torch.manual_seed(0)
    GPT2LMHeadModel(
        GPT2Config(vocab_size=size, n_embd=32, n_layer=2, n_head=2, n_positions=CONTEXT, **IDS)
    ).save_pretrained(folder / "gpt2")  # its output layer is tied, and it has dropout of 0.1
    LlamaForCausalLM(
        LlamaConfig(
            vocab_size=size, hidden_size=32, intermediate_size=64, num_hidden_layers=2,
            num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=CONTEXT, **IDS,
        )
    ).save_pretrained(folder / "llama")  # fmt: skip
    return folder


def characters(story: str) -> int:
    return open_text(story, tokenizer="characters").tokenizer.vocab_size


def logits_of(folder: Path) -> torch.Tensor:
    from transformers import AutoModelForCausalLM

    with torch.no_grad():
        return AutoModelForCausalLM.from_pretrained(folder)(torch.arange(12)[None]).logits


def trained_logits(run: Run) -> torch.Tensor:
    """Return the logits of the run's last checkpoint, by the model that the run was trained as."""
    from dtlib.models import causal
    from dtlib.training.checkpoint import Checkpoints

    loaded = Checkpoints(run.folder / "checkpoints").latest()
    assert loaded is not None
    model = causal.load(run.config["model"], dropout=0.0)
    model.load_state_dict(loaded.shared["strategy"]["model"], strict=False)
    with torch.no_grad():
        return model.eval()(torch.arange(12)[None])


def train_kinds(names: list[str], kinds: dict[str, str], **settings) -> dict[str, dict]:
    """Train each kind of model under each strategy, on the ranks that this runs on."""
    return {
        f"{kind} {name}": figures(train(name, out=f"{kind} {name}", model=model, **settings))
        for kind, model in kinds.items()
        for name in names
    }


def compare_with_one_process(names: list[str], models: Path, story: str) -> None:
    """The micro-batches of 6 that one process adds up are those that two ranks add up."""
    settings = {"data": story, "lr": 1e-3, "clip": 1e6}
    kinds = {kind: f"hf:{models / kind}" for kind in KINDS}
    found = launch(train_kinds, names, kinds, **settings, ranks=2, timeout=100)[0]
    for kind, model in kinds.items():
        alone = {**SMALL, **settings, "model": model, "strategy": "single", "accumulation": 2}
        one = figures(dtlib.train("text", 1, out=f"{kind} one", **alone))
        first = logits_of(models / kind)
        for name in names:
            run, close = f"{kind} {name}", TABLE[name].close
            assert found[run]["losses"] == pytest.approx(one["losses"], rel=0, abs=close), run
            assert found[run]["norms"] == pytest.approx(one["norms"], abs=max(close, 2e-6)), run
            export(run, f"{run} out")
            theirs = logits_of(Path(f"{run} out"))
            assert torch.equal(trained_logits(Run.load(run)), theirs), run
            assert (theirs - first).abs().max() > 1e-3


def test_two_ranks_have_the_losses_of_one_and_export_what_they_trained(models, story):
    compare_with_one_process([n for n in ("ddp", "zero3", "fsdp") if n in HERE], models, story)


@pytest.mark.slow
def test_every_other_strategy_has_the_losses_of_one(models, story):
    names = [name for name in HERE if name not in ("single", "ddp", "zero3", "fsdp")]
    compare_with_one_process(names, models, story)
