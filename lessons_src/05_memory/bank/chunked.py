"""More answers to `chunked_loss`, for the tests alone."""

import torch
from torch.nn import functional as F

from ..exercises.chunked import PART, chunked_loss

# words of the solution
LOOP = "for rows, targets in zip(hidden.split(chunk), labels.split(chunk))"
CALL, SUM = "torchs(summed, rows, targets, use_reentrant=False)", "total = total + "
RETURN = "return total / (labels != -100).sum()"


def listed(reduction, result):
    """The losses of the chunks in a list, and what becomes of it."""
    return {'"sum"': f'"{reduction}"', "total = 0": "total = []", SUM + CALL: f"total += [{CALL}]",
            RETURN: f"return {result}"}  # fmt: skip


def goes_back(how):
    return {RETURN: f"total.backward({how})\n    {RETURN}"}


class Eager(torch.autograd.Function):
    """Gradients are computed in forward already, chunk by chunk, as fused kernels do."""

    @staticmethod
    def forward(ctx, hidden, weight, labels, chunk):
        total, count = hidden.new_zeros(()), (labels != -100).sum()
        by_hidden, by_weight = torch.zeros_like(hidden), torch.zeros_like(weight)
        for start in range(0, len(labels), chunk):
            part = slice(start, start + chunk)
            logits, kept = hidden[part] @ weight.T, labels[part] != -100
            targets = labels[part].where(kept, torch.tensor(0))
            log = logits.log_softmax(1)
            total -= (log.gather(1, targets[:, None]).flatten() * kept).sum()
            gradient = (log.exp() - F.one_hot(targets, len(weight))) * kept[:, None] / count
            by_hidden[part], by_weight = gradient @ weight, by_weight + gradient.T @ hidden[part]
        ctx.save_for_backward(by_hidden, by_weight)
        return total / count

    @staticmethod
    def backward(ctx, gradient):
        by_hidden, by_weight = ctx.saved_tensors
        return gradient * by_hidden, gradient * by_weight, None, None


ALSO_WRONG = [
    ("mean_of_means", listed("mean", "torch.stack(total).nanmean()")),
    ("value_off", {RETURN: f"{RETURN} / 0.69"}),
    ("no_tensor", {RETURN: f"return ({RETURN[7:]}).item()"}),
    ("detached", {"return total": "return total.detach()"}),
    ("no_gradient", lambda hidden, weight, *given: chunked_loss(hidden, weight.detach(), *given)),
    ("many", listed("none", "torch.cat(total)")),
    ("gradient", goes_back("retain_graph=True")),
    ("let_go", goes_back("")),
    ("changed", {"total = 0": "labels[labels == -100] = 0; total = 0"}),
    # by the time that backward calls it, the loop's variables are those of the last chunk
    ("second_call", {"summed(rows, targets)": "summed(rows)", "summed, rows, targets":
                     "summed, rows"}),
    ("second_call", {
        "summed(rows, targets)": "summed(hidden)", "summed, rows, targets": "summed, hidden",
        "rows @ weight.T, targets": "hidden[part] @ weight.T, labels[part]",
        LOOP: "for part in [slice(i, i + chunk) for i in range(0, len(labels), chunk)]"}),
    ("keeps_all", {CALL: "summed(rows, targets)"}),
    # only the first chunk is not computed again
    ("keeps_all", {CALL: f"({CALL} if torch.is_tensor(total) else summed(rows, targets))"}),
    ("pieces", lambda *given: chunked_loss(*given[:3], -(-len(given[2]) // given[3]))),
    ("whole_logits", lambda *given: chunked_loss(*given[:3], len(given[2]))),
]  # fmt: skip
ALSO_RIGHT = [
    {"summed, rows, targets": "lambda rows, targets=targets: summed(rows, targets), rows"},
    # rows without a label are left out before anything is computed
    {"total = 0": "hidden, labels = hidden[labels != -100], labels[labels != -100]; total = 0"},
    {PART: f"{PART} / len(rows) * len(rows)"},
    Eager.apply,
]
if hasattr(F, "linear_cross_entropy"):  # from torch 2.13 on

    def torchs_own(hidden, weight, labels, chunk):
        options = torch.nn.LinearCrossEntropyOptions(batch_chunk_size=chunk)
        return F.linear_cross_entropy(hidden, weight, labels, options=options)

    ALSO_RIGHT.append(torchs_own)
