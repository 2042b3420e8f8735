# %% [raw]
# ---
# number: "25"
# title: Slurm and papermill
# does: >-
#   start ranks on many nodes, survive a time limit, run notebooks and studies
#   as jobs
# objectives:
#   - start the ranks of a job on all its nodes, so that they meet
#   - write a job that its time limit does not kill
#   - run a notebook as a job, and a study as an array, without a gap
# minutes: {read: 25, exercises: 52}
# needs: [laptop]
# builds_on: ["09"]
# ---

# %% [markdown]
# Your training takes twenty hours on four nodes. The cluster gives out four
# hours at a time, some night next week, and you will be asleep. **How do you
# hand over a run so that it arrives with nobody watching?**
#
# You write the two scripts that every such job needs, and try them: on a real
# Slurm if this machine has one. Else you see the same jobs as a test cluster
# of two nodes ran them. What bash does, bash does here. Exercises 1 and 2 are
# the core; 3 and 4 are *stretch*.

# %%
from dtlib import learn

learn.start("25")

# %% [markdown]
# `patience` is how many seconds a job may take, with its time in the queue,
# before the lesson shows the recorded one. `record` keeps a live session.

# %% tags=["parameters"]
patience = 180
record = False

# %%
from lesson import practice_cluster
from lesson.cluster import Cluster

from dtlib.cluster import batch

site = batch.site_variables()
cluster = Cluster("25_slurm", site, patience)

# %% [markdown]
# ## Your predictions
#
# Commit all four before you go on.

# %%
learn.predict("who_expands")

# %%
learn.predict("state_of_false")

# %%
learn.predict("when_trapped")

# %%
learn.predict("typo")

# %% [markdown]
# ## The life of a job
#
# A **batch script** is a shell script whose `#SBATCH` lines ask for nodes and
# time. `sbatch` puts it into a queue. When its turn comes, it runs **once, on
# the first of its nodes**. `srun` in it starts a command on all of them: each
# copy is a task. Here is a first job on two nodes:

# %%
hello = """\
#!/bin/bash
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --time=5
echo "the script: on $(hostname) of $SLURM_JOB_NODELIST"
srun hostname
"""
seen = cluster.scene("hello", hello)
assert seen["exit_code"] == "0:0"

# %% [markdown]
# The script's line came once, and `hostname` answered twice. Slurm tells each
# task where it stands:
#
# | variable | in the batch script | in a task of `srun` |
# | --- | --- | --- |
# | `SLURM_JOB_ID`, `SLURM_NNODES` | the job's | the same |
# | `SLURM_JOB_NODELIST` | `n[1-3]`, to be unfolded by `scontrol show hostnames` | the same |
# | `SLURM_NODEID` | 0 | 0, 1, 2: which of the nodes |
# | `SLURM_PROCID` | 0 | which of all tasks |
# | `SLURM_GPUS_ON_NODE` | GPUs of the first node | GPUs of this node |
#
# ("Output environment variables" of https://slurm.schedmd.com/sbatch.html and
# https://slurm.schedmd.com/srun.html; here `srun` takes all nodes of the job.)
#
# A variable is replaced by a shell. **By which one, and where does it run?**
# `bash -c 'text'` starts one more bash, which runs the text as a script. The
# *practice cluster* has an `srun` that starts its command with the
# variables of each task in turn, and stand-ins for `scontrol`, `hostname`,
# `torchrun` and `python`. Variables, quotes, signals and exit codes are those
# of your machine's bash.

# %%
tried = practice_cluster.run(
    """
srun echo "node $SLURM_NODEID"
srun bash -c 'echo "node $SLURM_NODEID, asked there"'
""",
    nodes=3,
)
print(tried.output)
early = tried.output.split("\n")[:3]
learn.measured(
    "who_expands",
    "0, 0, 0" if early == ["node 0"] * 3 else "0, 1, 2",
)
assert tried.output.count("node 0") == 4

# %% [markdown]
# In double quotes, or none, the batch script's own shell replaces the variable
# before `srun` is called, and there it is 0. In single quotes the text goes to
# the nodes as it is, and a shell that runs *there* replaces it.
#
# ## Exercise 1: ranks on every node
#
# ●●○ *16 minutes.* Lesson 09 started ranks with `torchrun`; on several nodes
# it runs once on each of them. This line hangs on three nodes of four GPUs:
#
# ```
# srun --ntasks-per-node=1 torchrun --nnodes=$SLURM_NNODES \
#   --node-rank=$SLURM_NODEID --nproc-per-node=$SLURM_GPUS_ON_NODE \
#   --master-addr=$(hostname) --master-port=29500 "$@"
# ```
#
# `"$@"` is the training, `train.py --steps 100`, with all its words. Write a
# line that starts twelve ranks that meet, and return it as a text: best in
# `r"""…"""`, where Python leaves each backslash alone. In the text of
# `bash -c 'text' a b`, `$0` is a, and `"$@"` is what comes after it.


# %% tags=["exercise"]
def start_ranks():
    """The lines of a batch script that start the training on all nodes."""
    ### BEGIN SOLUTION
    return r"""
first=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
srun --ntasks-per-node=1 bash -c 'exec torchrun --nnodes="$SLURM_NNODES" \
  --node-rank="$SLURM_NODEID" --nproc-per-node="$SLURM_GPUS_ON_NODE" \
  --master-addr="$0" --master-port=29500 "$@"' "$first" "$@"
"""
    ### END SOLUTION


# %% tags=["check"]
learn.check("start_ranks", start_ranks)

# %% [markdown]
# What each node was told, by that line:

# %%
line = learn.given("start_ranks")()
words = ["train.py", "--steps", "100"]
told = practice_cluster.run(line, words, nodes=3, gpus=4)
learn.table(
    [[one.node, " ".join(one.words)] for one in told.started],
    ["on node", "torchrun was called with"],
    "Three nodes of four GPUs: one world of twelve ranks",
)

# %% [markdown]
# The course's own `slurm/ddp_baseline.sbatch` does the same, with a port that
# comes from the job's number: two jobs on one node must not meet.
#
# ## How does a job end?
#
# Slurm believes the script's exit code, and a script ends with the code of its
# **last** command. A job whose training fails:

# %%
lost = """\
#!/bin/bash
#SBATCH --time=5
srun python -c 'raise SystemExit("the training failed")'
echo "all done"
"""
seen = cluster.scene("lost_code", lost)
state = seen["states"][-1][1]
learn.measured("state_of_false", state)
assert state == "COMPLETED"

# %% [markdown]
# COMPLETED, and nobody has a reason to look. `set -e` at the script's top ends
# it at the first command that fails, with that command's code. (Not one that
# is asked whether it fails, as after `if` or before `||`, nor the front of a
# pipe.)

# %%
for head in ("", "set -e"):
    ended = practice_cluster.run(f"{head}\nfalse\necho all done")
    print(f"{head or 'without it':<12} exit code {ended.code}")
assert ended.code == 1

# %% [markdown]
# ## A word before the end
#
# At the time limit everything is killed. `#SBATCH --signal=B:USR1@120` asks
# for a word before it: the **signal** SIGUSR1, a number that interrupts a
# program, to the batch script, 120 seconds early (up to 60 more:
# https://slurm.schedmd.com/sbatch.html, "--signal"). A **trap** says what bash
# does then. `kill -USR1 N` sends the signal to process N, and `$!` is the
# number of the last process that was started with `&`, behind the script.
#
# Two scripts, and a training that would run for 3 s. When it is sent SIGUSR1
# it writes a checkpoint, which takes 0.2 s, and ends with exit code 75, which
# says: stopped, but not done.

# %%
scripts = {
    "in front": """
trap 'echo the word came' USR1
"$@"
""",
    "behind, waited once": """
"$@" &
trap 'kill -USR1 $!' USR1
wait
""",
}


def timeline(script):
    """What happens to a training of 3 s whose job is sent SIGUSR1."""
    training = practice_cluster.Training(life=3, told=True)
    return practice_cluster.train(script, training)


ended = {name: timeline(script) for name, script in scripts.items()}
for name, end in ended.items():
    print(f"{name}: the script ended with exit code {end.code}")
    for seconds, what in end.events:
        print(f"  {seconds:+.2f} s  {what}")

# %%
first = ended["in front"]
learn.measured(
    "when_trapped",
    "when the training ends by itself"
    if first.when("told") is None
    else "at once",
)
assert first.when("told") is None and first.when("end") is not None
assert ended["behind, waited once"].when("checkpoint") is None

# %% [markdown]
# Times are seconds after the signal. **In front**: bash waits for the command
# and looks at its trap when that is over; a long training meets the limit
# first.
# **Behind** (`&`), `wait` is what bash waits in, and a signal with a trap ends
# the wait: the script runs on to its end, and with the script ends the job,
# before the checkpoint is written.
#
# ## Exercise 2: survive
#
# ●●● *18 minutes.* Write a script that
#
# - runs the training `"$@"`, and ends with its exit code;
# - hands SIGUSR1 on to it, and waits until it has ended;
# - calls `scontrol requeue "$SLURM_JOB_ID"` if, and only if, that code is 75.
#
# Slurm then puts the job back into the queue, under the same number. `wait N`
# returns when process N has ended, with its exit code in `$?`, *or* when a
# signal came that has a trap, with 128 + the signal's number.


# %% tags=["exercise"]
def survive():
    """A batch script that its time limit does not kill; "$@" trains."""
    ### BEGIN SOLUTION
    return r"""
"$@" &
training=$!
trap 'told=yes; kill -USR1 "$training"' USR1
while true; do
  told=no
  wait "$training"
  code=$?
  [ "$told" = yes ] || break
done
if [ "$code" = 75 ]; then scontrol requeue "$SLURM_JOB_ID"; fi
exit "$code"
"""
    ### END SOLUTION


# %% tags=["check"]
learn.check("survive", survive)

# %%
import matplotlib.pyplot as plt

ended["survive"] = timeline(learn.given("survive")())
figure, axes = plt.subplots(figsize=(7.5, 2.6), layout="constrained")
marks = {"told": "v", "checkpoint": "s", "requeue": "^", "end": "x"}
for row, end in enumerate(ended.values()):
    over = end.when("over")
    axes.barh(row, over + 0.4, left=-0.4, height=0.4, color="0.85")
    for what, mark in marks.items():
        if (at := end.when(what)) is not None:
            axes.plot(at, row, mark, ms=9, color="k", fillstyle="none")
axes.axvline(0, color="C3", ls="--")
axes.set(
    yticks=range(len(ended)),
    yticklabels=list(ended),
    xlabel="seconds after the signal (dashed); bar: the script runs",
)
handles = [
    plt.Line2D([], [], ls="", marker=m, color="k", fillstyle="none", label=w)
    for w, m in marks.items()
]
axes.legend(handles=handles, loc="upper left", bbox_to_anchor=(1, 1))
axes.invert_yaxis()
plt.show()

# %%
moments = ["told", "checkpoint", "requeue", "end", "over"]
learn.table(
    [
        [name, *(end.when(what) for what in moments), end.code]
        for name, end in ended.items()
    ],
    ["script", *moments, "exit code"],
    "Seconds after the signal; end: the training ended by itself",
)

# %%
saved = ended["survive"].when("checkpoint")
learn.my_run("from the word to the checkpoint", saved, "s")
assert ended["survive"].code == 75

# %% [markdown]
# A real job that is told, requeued and done. Its training counts to 8, and
# keeps in a file how far it came. (The test cluster is set to wait only
# seconds before the second start. Slurm's default is 120 s:
# https://slurm.schedmd.com/slurm.conf.html, "cred_expire".)

# %%
counting = """\
#!/bin/bash
#SBATCH --time=5
#SBATCH --requeue
#SBATCH --open-mode=append
cat > count.py <<'END'
import os, pathlib, signal, sys, time
saved, told = pathlib.Path(f"step-{os.environ['SLURM_JOB_ID']}"), []
signal.signal(signal.SIGUSR1, lambda *_: told.append(True))
step = int(saved.read_text()) if saved.exists() else 0
while step < 8:
    step += 1
    print("step", step, flush=True)
    time.sleep(0.5)
    if told:
        saved.write_text(str(step))
        sys.exit(75)
END
set -- python count.py
echo "start ${SLURM_RESTART_COUNT:-0}"
"""
script = counting + learn.given("survive")()
told = ["scancel", "--batch", "--signal=USR1", "{id}"]
seen = cluster.scene("told", script, when="step 3\n", then=told)
steps = [
    int(line.split()[1])
    for line in seen["log"].splitlines()
    if line.startswith("step")
]
assert steps == list(range(1, 9))
assert "start 1" in seen["log"]

# %% [markdown]
# Every step once: none lost, none done twice. `scancel --signal` sent the word
# here; before the time limit Slurm sends the same one to a script that asked
# for it with `--signal=B:USR1@…`.
#
# What is a word before the end worth? Each job pays its start, and one that is
# cut off loses what came after its last checkpoint. Computed, with half of the
# time between two checkpoints as the loss:

# %%
learn.what_if("pieces")

# %% [markdown]
# ## An array is a study
#
# `#SBATCH --array=0-5%2` makes six tasks of one script, at most two of them at
# a time. Each is a job with a number of its own, and `SLURM_ARRAY_TASK_ID`, 0
# to 5, tells which. So a study needs a function from an index to the settings
# of a run.
#
# ## Exercise 3: which run am I? (stretch)
#
# ●●○ *10 minutes.* `axes` is a dict such as `{"ranks": [1, 2, 4],
# "precision": ["fp32", "bf16"]}`. Give back the settings of run `index`, from
# 0, with its `repeat`, from 0: `{"ranks": 1, "precision": "fp32", "repeat":
# 0}`. Every run comes once. All settings come once before any is repeated, so
# that a busy hour does not meet one setting alone. Beyond the last: None.


# %% tags=["exercise", "stretch"]
def array_run(index, axes, repeats):
    """The settings of one run of a study, and its repeat."""
    settings = {}
    ### BEGIN SOLUTION
    for name, values in axes.items():
        index, place = divmod(index, len(values))
        settings[name] = values[place]
    return {**settings, "repeat": index} if index < repeats else None
    ### END SOLUTION


# %% tags=["check", "stretch"]
learn.check("array_run", array_run)

# %%
which = learn.given("array_run")
study = {"ranks": [1, 2], "precision": ["fp32", "bf16"]}
runs = [which(index, study, 2) for index in range(8)]
learn.table(
    [[index, *run.values()] for index, run in enumerate(runs)],
    ["task", *runs[0]],
    "An array of eight tasks, `--array=0-7%2`",
)

# %%
array = """\
#!/bin/bash
#SBATCH --array=0-5%2
#SBATCH --time=5
echo "task $SLURM_ARRAY_TASK_ID of job $SLURM_ARRAY_JOB_ID, on $(hostname)"
echo "row $SLURM_ARRAY_TASK_ID"
sleep 1
"""
seen = cluster.scene("array", array)
rows = sorted(
    line for line in seen["log"].splitlines() if line.startswith("row")
)
assert rows == [f"row {task}" for task in range(6)]

# %% [markdown]
# `dtlib study strong images --ranks 1,2,4 --part $SLURM_ARRAY_TASK_ID` does
# this for the course's studies, and `slurm/ddp_strong_scaling.sbatch` is the
# array around it.
#
# ## A notebook as a job
#
# **papermill** executes a notebook from the command line: it puts your values
# into a new cell after the one tagged `parameters`, runs all, and keeps the
# result. A small notebook:

# %%
import nbformat

cells = [
    ("steps = 2", ["parameters"]),
    ("print('trained', steps, 'steps')\nassert steps < 100, 'too many'", []),
]
notebook = nbformat.v4.new_notebook(
    cells=[
        nbformat.v4.new_code_cell(text, metadata={"tags": tags})
        for text, tags in cells
    ],
    metadata={
        "kernelspec": {"name": "python3", "display_name": "Python 3"},
        "language_info": {"name": "python"},
    },
)
nbformat.write(notebook, "small.ipynb")


def printed(path):
    """What the last cell of a notebook printed."""
    last = nbformat.read(path, as_version=4).cells[-1]
    return "".join(out.get("text", "") for out in last.outputs).strip()


learn.shell("papermill --no-progress-bar small.ipynb out.ipynb -p steps 5")
print("its last cell:", printed("out.ipynb"))
assert printed("out.ipynb") == "trained 5 steps"

# %% [markdown]
# And with a typing error in the parameter's name?

# %%
learn.shell("papermill --no-progress-bar small.ipynb out.ipynb -p stepz 500")
said = printed("out.ipynb")
print("its last cell:", said)
learn.measured(
    "typo",
    "it runs to the end with steps = 2"
    if said == "trained 2 steps"
    else "it stops with an error",
)
assert said == "trained 2 steps"

# %% [markdown]
# A warning, among other lines of a log, and exit code 0. The course refuses
# it, here and in `dtlib batch submit`, before a job is in the queue:

# %%
try:
    learn.shell("dtlib lessons run 07 -p rankz=4", quiet=True)
except learn.CommandFailed as failed:
    print(failed)

# %% [markdown]
# As a job, `papermill` is one more command whose exit code must not get lost:

# %%
as_job = """\
#!/bin/bash
#SBATCH --time=5
cd "$SLURM_SUBMIT_DIR"
papermill small.ipynb out-$SLURM_JOB_ID.ipynb -p steps 500 >out.log 2>&1 || {
  code=$?
  grep Error: out.log | tail -n 1
  exit "$code"
}
echo "the notebook is done"
"""
seen = cluster.scene("notebook", as_job)
assert seen["states"][-1][1] == "FAILED"
assert "AssertionError: too many" in seen["log"]
assert "the notebook is done" not in seen["log"]

# %% [markdown]
# FAILED, as it should be, and the notebook is kept as far as it came. One more
# trap: when a kernel *dies* (no memory, for instance), papermill 2.7 ends with
# an error, and its notebook calls every cell "completed", also those that
# never ran. Believe the exit code, and count the cells that ran.
#
# ## Exercise 4: what next? (stretch)
#
# ●●○ *8 minutes.* In the morning you have fifty jobs. From what is known of
# one, say `"done"`, `"again"` (run it on from its checkpoint) or `"mend"` (it
# would fail again, so look at it first). It is an object with `job.state`
# (COMPLETED, FAILED, TIMEOUT, NODE_FAIL, OUT_OF_MEMORY, or PREEMPTED: it made
# room for another), `job.exit_code` (75: stopped with a checkpoint), `step`,
# `began_at` (where this start of it began), `steps` (how many it should do),
# and `ran` of the `cells` of its notebook.


# %% tags=["exercise", "stretch"]
def next_step(job):
    """ "done", "again" or "mend"."""
    ### BEGIN SOLUTION
    whole = job.step >= job.steps and job.ran == job.cells
    if job.state == "COMPLETED" and job.exit_code == 0:
        return "done" if whole else "mend"
    outside = ("TIMEOUT", "NODE_FAIL", "PREEMPTED")
    from_outside = job.state in outside or job.exit_code == 75
    return "again" if from_outside and job.step > job.began_at else "mend"
    ### END SOLUTION


# %% tags=["check", "stretch"]
learn.check("next_step", next_step)

# %% [markdown]
# ## This course as batch jobs
#
# All of this is built in. On a login node, with your account and partition in
# `slurm/site.env`:
#
# ```
# dtlib batch submit 09 --nodes 2 --gpus-per-node 4 -p steps=500
# dtlib batch status         # how each job stands, and where its log is
# dtlib batch collect        # the notebooks, and a table of the runs
# ```
#
# `slurm/lesson.sbatch` is your exercise 2 around papermill. The training in
# the notebook sees the word, all its ranks agree on a step and write the
# checkpoint; the job then requeues itself, and `resume=True` goes on.

# %%
if record:
    print("kept in", cluster.keep())

# %% [markdown]
# ## Quiz

# %% tags=["quiz"]
learn.quiz()

# %% [markdown]
# ## Take-away
#
# - A script runs once; `srun` runs a command on every node. A variable that
#   differs between nodes must be replaced *there*.
# - The state of a job that ends by itself is its script's exit code. Never
#   lose it.
# - A job that is told in time, waits for the checkpoint and requeues itself
#   loses no step. One that requeues whatever happened never ends.
# - An array's task is an index. Turn it into settings so that none is missing
#   and none comes twice.

# %%
learn.take_away()
