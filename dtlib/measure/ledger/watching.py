"""Watch one step, and count its bytes at the right moments."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any

import torch

from dtlib.config.mesh import Mesh
from dtlib.measure.ledger import flight
from dtlib.measure.ledger.allocator import Allocations
from dtlib.measure.ledger.census import Census, WhileAlive, alive, key_of, local, storages
from dtlib.measure.ledger.collectives import CollectiveLog
from dtlib.measure.ledger.page import Page
from dtlib.measure.ledger.saved import SavedTensors
from dtlib.ranks import dist

HELD = ("parameters", "gradients", "optimizer", "fp32_copy")


@contextlib.contextmanager
def watch(*things: Any) -> Iterator[Page]:
    """Measure the training step that the `with` block takes, on this rank.

        with ledger.watch(model, optimizer) as page:
            loss_fn(model(x), y).backward()
            optimizer.step()
            optimizer.zero_grad()
        print(page.table())

    The step takes longer while it is watched. The page is filled at the end of the block.

    Parameters
    ----------
    *things
        A strategy, or models and optimizers. An object with a method `held()` says itself what it
        holds: {"parameters": tensors, "gradients": …, "optimizer": …, "fp32_copy": …}.

    Yields
    ------
    Page
        Empty until the block ends.
    """
    watched = Watched(things)
    world = dist.world()
    page = Page(world.rank, world.world_size, str(watched.device))
    step = _Step(watched, page)
    before, mark = sum(step.census().bytes.values()), flight.last_record()
    allocations = Allocations(watched.device)
    with watched.before_step(step.before_update), allocations, step.log, step.saved:
        yield page
    page.collectives, page.along = step.log.tallies, step.log.along
    page.carried_out = flight.tallies(mark, world.world_size)
    step.close()
    base = before if allocations.base is None else allocations.base
    if allocations.rise is not None:
        page.allocated, page.peak = base, base + allocations.rise


class Watched:
    """What a rank holds, according to the objects that `watch` was given."""

    def __init__(self, things: Iterable[Any]) -> None:
        self.things = list(things)
        inside = [getattr(thing, "module", None) for thing in self.things]
        modules = [m for m in [*self.things, *inside] if isinstance(m, torch.nn.Module)]
        # if both a wrapper and the model in it are given, the wrapper is enough
        within = {id(child) for m in modules for child in m.modules() if child is not m}
        self.modules = [m for m in dict.fromkeys(modules) if id(m) not in within]
        tensors = (t for kind in self.held().values() for t in kind)
        self.device = next((t.device for t in tensors), torch.device("cpu"))

    @property
    def mesh(self) -> Mesh | None:
        """How the ranks are arranged, if a strategy says that they have several axes."""
        plans = (thing.plan for thing in self.things if hasattr(thing, "plan"))
        mesh = next((plan.mesh for plan in plans), None)
        return mesh if mesh and max(mesh.sizes.values()) < mesh.size else None

    def held(self) -> dict[str, list[torch.Tensor]]:
        """Return the tensors of each of `HELD`, local to this rank."""
        found: dict[str, list[torch.Tensor]] = {kind: [] for kind in HELD}
        for thing in self.things:
            for kind, tensors in _held_by(thing).items():
                found[kind] += map(local, tensors)
        return found

    def buffers(self) -> list[torch.Tensor]:
        return [local(buffer) for module in self.modules for buffer in module.buffers()]

    def parameters(self) -> list[torch.Tensor]:
        """Return the parameters that the modules show now; a sharded one may just be whole."""
        return [local(p) for module in self.modules for p in module.parameters()]

    def whole(self) -> dict[str, int]:
        """Return the bytes of each parameter that is whole now, instead of this rank's shard."""
        named = (pair for module in self.modules for pair in module.named_parameters())
        here = {name: local(p) for name, p in named if not _is_shard(p)}
        return {
            name: p.numel() * p.element_size()
            for name, p in here.items()
            if p.numel() and p.untyped_storage().nbytes()
        }

    def gradients(self) -> list[torch.Tensor]:
        grads = (p.grad for module in self.modules for p in module.parameters())
        return [local(grad) for grad in grads if grad is not None]

    @contextlib.contextmanager
    def before_step(self, call: Any) -> Iterator[None]:
        """Call `call` whenever one of the things is about to take its step."""
        stepping = [thing for thing in self.things if callable(getattr(thing, "step", None))]
        own = [vars(thing).get("step") for thing in stepping]  # a scheduler may have put one there
        for thing in stepping:
            thing.step = _after(call, thing.step)
        try:
            yield
        finally:
            for thing, step in zip(stepping, own, strict=True):
                del thing.step
                if step is not None:
                    thing.step = step


class _Step:
    """The counts of one step, while it runs."""

    def __init__(self, watched: Watched, page: Page) -> None:
        self.watched, self.page = watched, page
        self.known = WhileAlive(self._held().storages())
        self.log = CollectiveLog(self._communicated, watched.mesh)
        self.saved = SavedTensors(self._is_known, self._sample)
        self.sent = WhileAlive()
        self.whole = watched.whole()

    def census(self) -> Census:
        """Count everything that lives now."""
        census = self._held()
        census.add_whole("communication", self.sent)
        census.add_whole("other", alive())
        return census

    def before_update(self) -> None:
        self._sample()
        self.page.before_update = self.census().bytes

    def close(self) -> None:
        self._sample()
        page, after = self.page, self.census()
        page.between_steps, page.on_host = after.bytes, after.on_host
        page.before_update = page.before_update or after.bytes
        page.most = {
            kind: max(size, page.before_update.get(kind, 0)) for kind, size in after.bytes.items()
        }
        activations, gradients, gathered, sent = map(max, zip(*self.page.timeline, strict=True))
        page.most["activations"] = max(activations, self.saved.most)
        page.most["gradients"] = max(gradients, page.most["gradients"])
        page.most["parameters"] += gathered
        page.most["communication"] = max(sent, page.most["communication"])

    def _held(self) -> Census:
        census, held = Census(), self.watched.held()
        census.add("counters", [t for t in held["optimizer"] if t.dim() == 0])
        for kind in HELD:
            census.add(kind, held[kind])
        census.add("buffers", self.watched.buffers())
        census.close()
        return census

    def _is_known(self, storage: torch.UntypedStorage) -> bool:
        return storage in self.known or key_of(storage) in storages(self.watched.parameters())

    def _communicated(self, tensors: list[torch.Tensor]) -> None:
        for storage in storages(tensors).values():
            if not self._is_known(storage):
                self.sent.add(storage)
        self._sample()

    def _sample(self) -> None:
        shown = storages(self.watched.parameters())
        gathered = sum(s.nbytes() for s in shown.values() if s not in self.known)
        grads = storages(self.watched.gradients())
        gradients = sum(s.nbytes() for s in grads.values())
        # DDP's buckets are passed to collectives, but are the gradients' own memory
        sent = sum(s.nbytes() for s in self.sent if key_of(s) not in grads)
        before, self.whole = self.whole, self.watched.whole()
        self.page.gathered += sum(self.whole[name] for name in self.whole.keys() - before.keys())
        now = (self.saved.bytes, gradients, gathered, sent)
        if self.page.timeline[-1:] != [now]:
            self.page.timeline.append(now)


def _is_shard(parameter: torch.Tensor) -> bool:
    """Return whether a parameter has to be gathered; a part along the tensor axis never is."""
    mesh = getattr(parameter, "device_mesh", None)
    return mesh is not None and mesh.mesh_dim_names != ("tensor",)


def _held_by(thing: Any) -> dict[str, list[torch.Tensor]]:
    """Return what one object holds: by its `held()`, or from its parameters or state."""
    if hasattr(thing, "held"):
        return thing.held()
    if isinstance(thing, torch.nn.Module):
        parameters = list(thing.parameters())
        return {
            "parameters": [p.detach() for p in parameters],
            "gradients": [p.grad for p in parameters if p.grad is not None],
        }
    state = getattr(thing, "state", {})
    values = [value for of in state.values() for value in of.values()]
    return {"optimizer": [value for value in values if isinstance(value, torch.Tensor)]}


def _after(call: Any, step: Any) -> Any:
    def both(*args: Any, **kwargs: Any) -> Any:
        call()
        return step(*args, **kwargs)

    return both
