"""How much memory a list of losses keeps alive."""

from collections.abc import Callable

from torch import Tensor, nn
from torch.nn import functional as F

from dtlib.measure.ledger.saved import SavedTensors


def kept_by_losses(
    model: nn.Module, x: Tensor, y: Tensor, count: int, use: Callable[[Tensor], object]
) -> int:
    """Count the activations behind a list of losses.

    Parameters
    ----------
    model, x, y
        `count` times the cross-entropy of `model(x)` and `y` is computed. Not counted are pictures,
        weights and averages, which are in memory anyway.
    use
        Called with each of the losses afterwards.

    Returns
    -------
    int
        Bytes that the graphs still hold while all losses are there.
    """
    own = [x, y, *model.parameters(), *model.buffers()]
    # Two tensors that share their memory have the same data_ptr, its address.
    known = {tensor.untyped_storage().data_ptr() for tensor in own}
    with SavedTensors(lambda storage: storage.data_ptr() in known) as saved:
        losses = [F.cross_entropy(model(x), y) for _ in range(count)]
        for loss in losses:
            use(loss)
        return saved.bytes
