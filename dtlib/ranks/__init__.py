"""The machinery under `dtlib.ranks.launcher`: what each module does.

refuse.py  in the parent: refuses bad arguments before anything starts
pool.py    in the parent: gets warm processes, from the fork server or from spare workers
server.py  the fork server, a process of its own: loads torch once, then forks a rank when asked
worker.py  in a rank: takes one job over its pipe, joins the group, calls the function, reports
allocation.py  what a Slurm allocation holds: nodes, and ranks, GPUs and CPUs of each
slurm.py   in the parent: gets processes on all nodes of a Slurm allocation, by srun
node.py    on such a node: the agent that becomes torchrun, and a rank that connects back
listener.py  in a rank: the thread that reports where it is, takes "stop", dies with the parent
where.py   what a rank is doing: its line of user code and the collective that it waits in
group.py   in the parent: one launch; starts the ranks, listens to all of them, ends them
outcome.py how ranks ended, which failed first, and the sentence that reports it
gpus.py    in a rank: which GPU is its own, given what all ranks see
foresee.py before ranks have met: predicts the device they will use, as far as it can be known
interfaces.py  network interfaces that variables name, and which of them are refused
parcel.py  pickling, by value
timeouts.py  how long a rank waits for another before the wait counts as a hang
waiting.py  waits for all ranks without a collective's time-out, and for answers with a time limit
processes.py  how all of dtlib starts a program, and ends it with what it started
show.py    output and progress, as they arrive, in a notebook, a terminal or a log

A rank never imports the parent's `__main__`: functions are sent by value (cloudpickle).
"""
