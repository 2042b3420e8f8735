"""More answers to `evaluate`, for the tests alone."""

# words of the solution
LOOP, QUIET, BACK = "for x, y in batches:", "torch.no_grad()", "model.train(mode)"
HITS, RETURN = "int((logits.argmax(1) == y).sum())", "return loss / count, hits / count"

ALSO_WRONG = [
    ("mean_of_means", {HITS: "(logits.argmax(1) == y).double().mean().item()",
                       "hits / count": "hits / len(batches)"}),
    ("percent", {"hits / count": "100 * hits / count"}),
    ("other", {RETURN: "return loss / count + 0.1, hits / count + 0.1"}),
    ("no_pair", {RETURN: "return loss / count"}),
    ("no_number", {RETURN: 'return f"{loss / count:.4f}", f"{hits / count:.4f}"'}),
    ("many", {RETURN: "return [torch.full((count,), value / count) for value in (loss, hits)]"}),
    ("none", {RETURN: "print(loss / count)"}),
    ("train_mode", {"model.eval()": "model.train()"}),
    ("with_graph", {QUIET: "torch.enable_grad()"}),
    ("graph", {QUIET: "torch.enable_grad()", ".item()": ""}),
    # of one picture, or of few, each of these has the score of another mistake
    ("other", {HITS: "int((logits[range(len(y)), y] > 0).sum())"}),
    ("other", {HITS: "int((logits.max(1).values == y).sum())"}),
    ("other", {HITS: "int(((logits[:, 1] > logits[:, 0]) == y).sum())"}),
    ("other", {HITS: "int((logits.abs().argmax(1) == y).sum())"}),
    ("other", {HITS: "int((logits.softmax(1).gt(0.5).long().argmax(1) == y).sum())"}),
    ("errors", {"hits / count": "1 - hits / count"}),
    ("rounded", {"hits / count": "round(hits / count, 3)"}),
    ("rounded", {RETURN: "return round(loss / count, 2), round(hits / count, 2)"}),
    ("last_batch", {HITS: HITS.replace("int", "len(y) and int"), "hits +=": "hits =",
                    "hits / count": "hits / len(y)"}),
    ("part_left", {BACK: "model.training = mode"}),
    ("train_mode", {"model.eval()": "model.training = False", BACK: "model.training = mode"}),
    ("grad_off", {f"with {QUIET}": "for _ in [torch.set_grad_enabled(False)]"}),
    ("frozen", {"model.eval()": "model.eval().requires_grad_(False)"}),
    ("moved", {RETURN: f"torch.nn.init.zeros_(model.weight)\n    {RETURN}"}),
    ("changed", {RETURN: f"batches.clear()\n    {RETURN}"}),
    ("no_pair", {RETURN: 'return {"loss": loss / count, "accuracy": hits / count}'}),
    ("left_in_eval", {BACK: "pass"}),
    ("left_in_train", {BACK: "model.train()"}),
]  # fmt: skip
ALSO_RIGHT = [
    {LOOP: "for x, y in [map(torch.cat, zip(*batches))]:"},
    {QUIET: "torch.inference_mode()", ".item()": "", HITS: "(logits.max(1).indices == y).sum()",
     BACK: "if mode:\n        model.train()", RETURN: "return [loss / count, hits / count]"},
    {RETURN: "return torch.tensor([loss / count, hits / count])"},
]  # fmt: skip
