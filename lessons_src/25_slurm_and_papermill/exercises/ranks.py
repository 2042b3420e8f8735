"""`start_ranks`: a line of a batch script that starts torchrun on every node, with its number."""

import contextlib
import io

from dtlib.learn.answers import Answer
from dtlib.learn.solutions import solution
from dtlib.learn.verdicts import Passed, Wrong

from .. import practice_cluster
from .scripts import misread, text_of

TRAINING = ["train.py", "--steps", "100", "--note", "two words"]


def case(nodes, gpus):
    """A job on a number of nodes, each with a number of GPUs."""
    label = f"{nodes} node{'s' * (nodes > 1)} of {gpus} GPU{'s' * (gpus > 1)}"
    return label, (nodes, gpus)


def run(answer, nodes, gpus):
    """Run the line on nodes that exist only in the practice cluster."""
    return practice_cluster.run(text_of(answer()), TRAINING, nodes, gpus)


def read(ended, nodes, gpus):
    """Look at what torchrun was told, and count the ranks that meet."""
    try:
        _started(ended, nodes, gpus)
        calls = [_call(one.words) for one in ended.started]
        _world(calls, nodes, gpus)
        _meeting(calls, [one.node for one in ended.started], nodes)
    except Wrong as wrong:
        if wrong.mistake != "nothing" and (says := misread(ended.output)):
            raise Wrong("misread", says=says) from None
        raise
    return nodes * gpus


def _started(ended, nodes, gpus):
    """Whether torchrun came up once on each node."""
    if ended.code is None:
        raise Wrong("hangs", seconds=practice_cluster.SECONDS)
    if not ended.started:
        said = ended.output.strip().splitlines()
        raise Wrong("nothing", says=said[-1].rstrip(".?") if said else "it printed nothing")
    if any(one.program != "torchrun" for one in ended.started):
        raise Wrong("no_torchrun", count=len(ended.started))
    if len(ended.started) > nodes:
        each_gpu = len(ended.started) == nodes * gpus
        key = "too_many" if each_gpu else "too_often"
        raise Wrong(key, count=len(ended.started), n=nodes)
    if len({one.node for one in ended.started}) < nodes:
        raise Wrong("one_node", count=len(ended.started), n=nodes)


def _call(words):
    """What torchrun's own parser makes of the words."""
    from torch.distributed.run import get_args_parser

    rest = TRAINING[1:]
    if words[-len(rest) :] == rest and TRAINING[0] not in words:  # torchrun may refuse what is left
        raise Wrong("lost_word", got=" ".join(rest))
    for word in words:
        if word.startswith("-") and "$" in word:
            raise Wrong("literal", got=word)
        if word.startswith("--") and word.endswith("="):
            raise Wrong("empty", got=word)
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
            return get_args_parser().parse_args(words)
    except SystemExit:
        lines = said.getvalue().strip().splitlines() or ["no message"]
        if "required: training_script" in lines[-1]:
            raise Wrong("no_training", got=" ".join(words)) from None
        raise Wrong("refused", says=lines[-1].rpartition("error: ")[2].rstrip(".?")) from None


def _world(calls, nodes, gpus):
    """Whether together they are one world of nodes × gpus ranks, with the training asked for."""
    for call in calls:
        if nodes > 1 and (call.standalone or call.nnodes in ("1", "1:1")):
            raise Wrong("lonely", n=nodes, per=call.nproc_per_node)
        if call.nnodes not in (str(nodes), f"{nodes}:{nodes}"):
            raise Wrong("nnodes", got=call.nnodes, n=nodes)
        if call.nproc_per_node not in (str(gpus), "gpu"):
            raise Wrong("nproc", got=call.nproc_per_node, gpus=gpus, n=nodes)
        got = [call.training_script, *call.training_script_args]
        if " ".join(got) == " ".join(TRAINING) and got != TRAINING:
            raise Wrong("split_word", got=len(got), want=len(TRAINING))
        if got != TRAINING:
            raise Wrong("arguments", got=" ".join(got))


def _meeting(calls, names, nodes):
    """Whether all nodes meet at one address, and no two of them take the same place."""
    c10d = calls[0].rdzv_backend != "static"
    if not c10d and nodes > 1:
        places = [call.node_rank for call in calls]
        if len(set(places)) == 1:
            raise Wrong("same_place", place=places[0], n=nodes)
        if places != [int(name[1:]) - 1 for name in names]:
            raise Wrong("places", got=places, n=nodes)
    addresses = [_address(call, c10d) for call in calls]
    hosts, ports = [address[0] for address in addresses], [address[1] for address in addresses]
    if nodes > 1 and any(host in ("127.0.0.1", "localhost", "") for host in hosts):
        raise Wrong("loopback", n=nodes)
    if len(set(hosts)) > 1:
        raise Wrong("own_address", got=", ".join(hosts))
    if nodes > 1 and hosts[0] not in names:
        raise Wrong("no_address", got=hosts[0])
    if nodes > 1 and not c10d and hosts[0] != "n1":
        raise Wrong("wrong_node", got=hosts[0])
    if len(set(ports)) > 1:
        raise Wrong("ports", got=", ".join(ports))
    if len({call.rdzv_id for call in calls}) > 1:
        raise Wrong("ids", got=", ".join(call.rdzv_id for call in calls))


def _address(call, c10d):
    if call.rdzv_endpoint or c10d:
        host, _, port = call.rdzv_endpoint.partition(":")
        return host, port
    return call.master_addr, str(call.master_port)


EXERCISE = Answer(
    solution("start_ranks", globals()),
    run=run,
    read=read,
    alone=True,
    cases=[case(1, 2), case(3, 4), case(4, 1)],
    other="unrecognised",
    passed=lambda got: Passed((("ranks that met, in three jobs", sum(got), 18, "ranks"),)),
)
