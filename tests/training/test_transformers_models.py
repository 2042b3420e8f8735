"""`--model hf:FOLDER`: models of transformers in the loop, under every strategy, and out again."""

import importlib.util
import shutil
import warnings
from pathlib import Path

import pytest
import torch
from torch.nn import functional as F

import dtlib
from dtlib import launch
from dtlib.config import RunConfig
from dtlib.data import open_text
from dtlib.data.tokenizer import train as train_tokenizer
from dtlib.errors import BadInput, Unavailable
from dtlib.models import causal
from dtlib.sim import activations
from dtlib.training import start
from dtlib.training.checkpoint import Checkpoints
from dtlib.training.checkpoint.export import export
from dtlib.training.record import Run
from tests.strategy_runs import HERE, SMALL, TABLE, figures, plain, train

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


def saved(run: Run) -> dict[str, torch.Tensor]:
    """Return the weights in the run's last checkpoint."""
    loaded = Checkpoints(run.folder / "checkpoints").latest()
    assert loaded is not None
    return loaded.shared["strategy"]["model"]


def trained_logits(run: Run, lora: int | None = None) -> torch.Tensor:
    """Return the logits of the run's last checkpoint, by the model that the run was trained as."""
    model = causal.load(run.config["model"], dropout=0.0, lora=lora)
    model.load_state_dict(saved(run), strict=False)
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


def test_from_a_parquet_folder_through_two_ranks_to_a_model_that_transformers_reloads(
    models, story, tmp_path
):
    """GPT-2 and Llama under ddp, zero3 and fsdp: losses of one process, logits as trained."""
    import datasets

    (text,) = Path(story).glob("*.txt")
    lines = text.read_text().splitlines()  # the end of a document has the newline's place
    (tmp_path / "documents").mkdir()
    datasets.Dataset.from_dict({"text": lines}).to_parquet(tmp_path / "documents" / "0.parquet")
    names = [name for name in ("ddp", "zero3", "fsdp") if name in HERE]
    compare_with_one_process(names, models, str(tmp_path / "documents"))


@pytest.mark.slow
@pytest.mark.timeout(400)  # twelve runs; 30 s where little else runs
def test_every_other_strategy_has_the_losses_of_one(models, story):
    seen = ("single", "ddp", "zero3", "fsdp")
    names = [name for name in plain(HERE) if name not in seen and not TABLE[name].gpt]
    compare_with_one_process(names, models, story)


def alone(models: Path, kind: str, **settings) -> Run:
    """Train in this process, a world of one."""
    plain = {"model": f"hf:{models / kind}", "strategy": "single", "lr": 1e-2, "out": "run"}
    config = RunConfig("text", **{**SMALL, **plain, **settings})
    return Run.load(start.train_on_rank(start.prepare(config)))


@pytest.mark.parametrize("lora", [None, 2])
def test_a_resumed_run_has_the_bits_of_one_that_was_not_stopped(models, story, lora):
    settings = {"data": story, "lora": lora, "dropout": 0.2}
    straight = alone(models, "gpt2", **settings, out="straight")
    alone(models, "gpt2", **settings, steps=2)
    resumed = alone(models, "gpt2", **settings, resume=True)
    losses = [line["loss"] for line in straight.history]
    assert [line["loss"] for line in resumed.history] == losses
    assert all(torch.equal(value, saved(straight)[name]) for name, value in saved(resumed).items())


def test_adapters_alone_are_trained_saved_and_exported(models, story):
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    run = alone(models, "llama", data=story, lora=2, lr=0.05)
    assert run.history[-1]["loss"] < run.history[0]["loss"]
    assert {name.split(".")[-3] for name in saved(run)} == {"lora_A", "lora_B"}
    export(run.folder, "out")
    merged, trained = logits_of(Path("out")), trained_logits(run, lora=2)
    # the product of the adapters is added to the weights in another order: one rounding of each
    assert torch.allclose(merged, trained, atol=1e-5)
    assert (merged - logits_of(models / "llama")).abs().max() > 1e-3
    base = AutoModelForCausalLM.from_pretrained(models / "llama")
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # peft calls what transformers will rename
        adapted = PeftModel.from_pretrained(base, "out/adapter")(torch.arange(12)[None]).logits
    assert torch.equal(adapted, trained)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in ("accelerate", "lightning") if name in HERE])
def test_adapters_under_a_framework_are_those_of_one_process(name, models, story):
    settings = {"data": story, "lr": 0.05, "lora": 2, "model": f"hf:{models / 'llama'}"}
    two = figures(launch(train, name, out="two", **settings, ranks=2, timeout=100)[0])
    one = figures(alone(models, "llama", **settings, accumulation=2, out="one"))
    assert two["losses"] == pytest.approx(one["losses"], rel=0, abs=TABLE[name].close)
    assert two["losses"][-1] < two["losses"][0]
    assert all(torch.equal(t, saved(Run.load("one"))[n]) for n, t in saved(Run.load("two")).items())
    export("two", "out")
    merged = logits_of(Path("out"))  # adds the adapters' product in another order
    assert torch.allclose(merged, trained_logits(Run.load("two"), lora=2), atol=1e-5)


def test_dropout_is_that_of_the_run_and_not_of_the_models_file(models):
    name = f"hf:{models / 'gpt2'}"  # whose config.json has 0.1
    tokens = torch.arange(12)[None]
    plain, dropping = causal.load(name, dropout=0.0), causal.load(name, dropout=0.9)
    assert torch.equal(plain(tokens), plain(tokens))
    assert not torch.equal(dropping(tokens), dropping(tokens))


@pytest.mark.parametrize("kind", KINDS)
def test_a_loss_in_chunks_is_that_of_all_logits(kind, models, monkeypatch):
    model = causal.load(f"hf:{models / kind}", dropout=0.0)
    monkeypatch.setattr(activations, "CHUNK", 4 * model.inner.config.vocab_size)
    tokens = torch.arange(12)[None]
    labels = tokens.clone()
    labels[0, :3] = -100
    assert model.plain
    whole = F.cross_entropy(model(tokens).flatten(0, 1), labels.flatten(), reduction="sum")
    # 9 terms of about 3 each, rounded at 2^-24 of their sum
    assert model(tokens, labels).item() == pytest.approx(whole.item(), abs=2e-5)


def test_a_model_whose_logits_are_capped_has_no_loss_in_chunks(tmp_path):
    from transformers import Gemma2Config, Gemma2ForCausalLM

    sizes = {"vocab_size": 27, "hidden_size": 32, "intermediate_size": 64, "head_dim": 8}
    layers = {"num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": 2}
    ids = {**IDS, "pad_token_id": None, "final_logit_softcapping": 0.5}
    config = Gemma2Config(**sizes, **layers, **ids, initializer_range=1.0)
    Gemma2ForCausalLM(config).save_pretrained(tmp_path / "model")
    assert not causal.load(f"hf:{tmp_path / 'model'}").plain


def test_a_model_brings_its_tokenizer_and_takes_it_along(models, story, tmp_path):
    from transformers import AutoTokenizer, GPT2Config, GPT2LMHeadModel

    text = Path(story, "story.txt").read_text()
    made = train_tokenizer(text, 300)
    config = GPT2Config(
        vocab_size=made.vocab_size + 4, n_embd=8, n_layer=1, n_head=1, n_positions=64, **IDS
    )
    GPT2LMHeadModel(config).save_pretrained(tmp_path / "own")
    made.inner.save(str(tmp_path / "own" / "tokenizer.json"))
    run = alone(tmp_path, "own", data=story, tokenizer=None, steps=1)
    assert f"tokenizer own ({made.vocab_size} tokens)" in run.summary["evaluation"]["protocol"]
    export(run.folder, "out")
    ids = AutoTokenizer.from_pretrained("out")(text[:50])["input_ids"]
    assert ids == made.encode(text[:50]).tolist()
    with pytest.raises(BadInput, match=rf"characters, but .* its own, of {made.vocab_size} tokens"):
        alone(tmp_path, "own", data=story, steps=1)
    with pytest.raises(BadInput, match=r"grammar has one token per word, but .* of its own"):
        alone(tmp_path, "own", data="grammar", tokenizer=None)
    with pytest.raises(BadInput, match=r"leave out pad_vocab_to 8"):
        alone(tmp_path, "own", data=story, tokenizer=None, pad_vocab_to=8)
    made = train_tokenizer(text, 320)
    made.inner.save(str(tmp_path / "own" / "tokenizer.json"))
    with pytest.raises(BadInput, match=rf"has {made.vocab_size} tokens, .*vocabulary only"):
        alone(tmp_path, "own", data=story, tokenizer=None)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"max_length": CONTEXT + 1}, f"{CONTEXT + 1} exceeds the context of .* {CONTEXT} tokens"),
        ({"tokenizer": "trained"}, r"in \d+ tokens of the tokenizer trained-4096, but .* of 27"),
        ({"activation_checkpointing": "selective"}, "selective knows .* use full or none"),
        ({"model": "hf:"}, "names no model"),
        ({"model": "hf:./nowhere"}, "there is no folder nowhere"),
        ({"model": "hf:empty"}, "a folder without config.json"),
        ({"model": "hf:run of dtlib"}, "is the folder of a run; .*`dtlib export"),
        ({"model": "hf:damaged"}, "transformers cannot load model hf:damaged: .*; give a folder"),
        ({"model": "hf:no weights"}, "a config.json but no weights"),
        ({"model": "hf:a part"}, "lack 1 tensors of its architecture, the first is .*ln_f.bias"),
        ({"model": "hf:bert"}, "is not causal: its prediction at one position changes"),
        ({"model": "hf:t5"}, "is a t5 model, which AutoModelForCausalLM does not load"),
        ({"model": "nano", "lora": 2}, "lora 2 adds adapters to weights that are trained"),
    ],
)  # fmt: skip
def test_what_cannot_be_trained_is_refused_in_a_sentence(settings, words, models, story, others):
    with pytest.raises(BadInput, match=words) as refused:
        alone(models, "gpt2", **{"data": story, **settings})
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 400


@pytest.fixture
def others(models: Path, tmp_path: Path) -> None:
    """Make folders, in the working folder, that hold something else than a whole causal model."""
    from safetensors.torch import load_file, save_file
    from transformers import BertConfig, BertLMHeadModel, T5Config

    for name in ("empty", "run of dtlib", "damaged", "t5"):
        (tmp_path / name).mkdir()
    (tmp_path / "run of dtlib" / "metrics.jsonl").touch()
    (tmp_path / "damaged" / "config.json").write_text("{")
    T5Config().save_pretrained(tmp_path / "t5")
    (tmp_path / "no weights").mkdir()
    shutil.copy(models / "gpt2" / "config.json", tmp_path / "no weights")
    shutil.copytree(models / "gpt2", tmp_path / "a part")
    weights = load_file(tmp_path / "a part" / "model.safetensors")
    del weights["transformer.ln_f.bias"]
    save_file(weights, tmp_path / "a part" / "model.safetensors", {"format": "pt"})
    config = BertConfig(
        vocab_size=27, hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=16,
    )  # fmt: skip
    bert = BertLMHeadModel(config)
    torch.manual_seed(0)
    for weights in bert.parameters():  # large enough for a later token to be felt
        torch.nn.init.normal_(weights)
    bert.save_pretrained(tmp_path / "bert")


def test_what_is_not_on_this_machine_is_unavailable(models, story, monkeypatch):
    with pytest.raises(Unavailable, match="does not download it; run `hf download some/model`"):
        alone(models, "gpt2", data=story, model="hf:some/model")
    with pytest.raises(BadInput, match="is a language model; train it by `dtlib train text`"):
        start.prepare(RunConfig("images", model=f"hf:{models / 'gpt2'}"))
    monkeypatch.setattr(importlib.util, "find_spec", lambda package: None)
    for package, settings in (("transformers", {}), ("peft", {"lora": 2})):
        if package == "peft":
            monkeypatch.setattr(importlib.util, "find_spec", lambda name: name != "peft" or None)
        with pytest.raises(Unavailable, match=f"needs {package}, .* run `pip install {package}`"):
            alone(models, "gpt2", data=story, **settings)
