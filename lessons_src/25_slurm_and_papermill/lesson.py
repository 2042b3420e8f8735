# %% [raw]
# ---
# number: "25"
# title: Slurm and papermill
# does: >-
#   start ranks on many nodes, survive a time limit, run notebooks and studies
#   as jobs
# objectives:
#   - start the ranks of a job on all its nodes, so that they meet
#   - write a job that survives its time limit
#   - run a notebook as a job, and a study as an array, without a gap
# minutes: {read: 25, exercises: 52}
# needs: [laptop]
# builds_on: ["09"]
# ---

# %% [markdown]
# Your training takes twenty hours on four nodes. The cluster gives out four
# hours at a time, some night next week, and you will be asleep. **How do you
# hand over a run so that it finishes with nobody watching?**
#
# **Slurm** is the program that shares out most such clusters: you describe a
# job, and it decides when and where the job runs. You write the two halves of
# the script that every long job needs, and then see them as one. Where this
# machine has a Slurm, the jobs run on it; otherwise you see how they ran on a
# test cluster of two nodes. You try single lines in this machine's own bash.
# Exercises 1 and 2 are the core; 3 and 4 are *stretch*.

# %%
from dtlib import learn

learn.start("25")

# %%
from lesson.pictures import draw_question

draw_question()

# %% [markdown]
# `patience` is how many seconds a job may take, including its time in the
# queue, before the lesson shows the recorded one instead. `record = True`
# keeps what a live session saw as the new record.

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
# Answer all four before you read on.

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
# time. On the cluster's **login node**, where you edit and submit, `sbatch`
# puts it into a queue. When its turn comes, it runs **once, on the first of
# its nodes**. `srun`, called in it, starts a command on all of
# them; each copy is called a **task**. `sinfo` lists the nodes and `squeue`
# the jobs. A first job on two nodes:

# %%
hello = """\
#!/bin/bash
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=2
#SBATCH --time=5
echo "the script: on $(hostname) of $SLURM_JOB_NODELIST"
srun --cpus-per-task="$SLURM_CPUS_PER_TASK" hostname
sinfo --Node --format="%N %T, %c CPUs, %G"
squeue --jobs="$SLURM_JOB_ID" --format="%i %j %T, %M of %l, %R"
"""
seen = cluster.scene("hello", hello)
assert seen["exit_code"] == "0:0"

# %% [markdown]
# The script printed its line once, and `hostname` answered twice. In "exit
# code 0:0" the first number is the script's exit code, and the second is the
# number of the signal that ended it, or 0. `srun` is told `--cpus-per-task`
# again because since Slurm 22.05 it no longer takes that number from the job
# (https://slurm.schedmd.com/srun.html, "--cpus-per-task"): without it, a task
# may be bound to a single CPU, which all ranks of the node then share. Slurm
# tells each task who it is:
#
# | variable | in the batch script | in a task of `srun` |
# | --- | --- | --- |
# | `SLURM_JOB_ID`, `SLURM_NNODES` | the job's | the same |
# | `SLURM_JOB_NODELIST` | `n[1-3]`; `scontrol show hostnames` lists the names | the same |
# | `SLURM_NODEID` | 0 | 0, 1, 2: which of the nodes |
# | `SLURM_PROCID` | 0 | which of all tasks |
# | `SLURM_GPUS_ON_NODE` | GPUs of the first node | GPUs of this node |
#
# ("Output environment variables" of https://slurm.schedmd.com/sbatch.html and
# https://slurm.schedmd.com/srun.html; here `srun` uses all nodes of the job.)
#
# A shell replaces a variable by its value. **Which shell, and on which
# node?** `bash -c 'text'` starts one more bash, which runs the text as a
# script. In the **practice cluster** of this lesson, your machine's own bash
# runs the script, so variables, quotes, signals and exit codes are real.
# `srun` is a stand-in that runs its command once for each task, with that
# task's variables; so are `scontrol`, `hostname`, `torchrun` and `python`. The
# nodes are called n1, n2 and n3, and Slurm numbers them 0, 1 and 2.

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
# In double quotes, or without quotes, the batch script's own shell replaces
# the variable before it calls `srun`, and in that shell the value is 0. In
# single quotes the text goes to the nodes unchanged, and a shell that runs
# *there* replaces the variable.
#
# This is the bash that the scripts of this lesson need:
#
# | bash | what it means |
# | --- | --- |
# | `a=$(command)` | run the command, and keep what it prints in `a`; no spaces around `=` |
# | `"$a"` | the value of `a`, as one word; without the quotes it is cut at spaces |
# | `"$@"`, `"${@:2}"` | the words that the script was called with, each kept whole; the same from the second on |
# | `set -- a b` | from here on `"$@"` is a and b |
# | `[ "$a" = b ]`, `[ -e name ]` | a command that succeeds if the value of `a` is b; if a file of that name exists |
# | `if [ "$a" = b ]; then …; fi` | runs … if the command after `if` succeeds |
# | `while true; do …; done` | runs … again and again, until `break` in it ends the loop |
# | `$?` | the exit code of the last command: 0 if it succeeded |
# | `cat > name <<'END'` | writes the lines up to `END` into a file |
#
# And `first || second` runs the second command only if the first one failed.
#
# ## Exercise 1: ranks on every node
#
# ●●○ *16 minutes.* Lesson 09 started ranks with `torchrun`; on several nodes
# it runs once on each of them. This line hangs on three nodes of four GPUs
# (`--cpus-per-task` is left out to keep it short; the full script has it):
#
# ```
# srun --ntasks-per-node=1 torchrun --nnodes=$SLURM_NNODES \
#   --node-rank=$SLURM_NODEID --nproc-per-node=$SLURM_GPUS_ON_NODE \
#   --master-addr=$(hostname) --master-port=29500 "$@"
# ```
#
# `"$@"` stands for the training, `train.py --steps 100`, word by word. Write
# the lines that start twelve ranks in one world, and return them as a string;
# `r"""…"""` is best, because Python leaves backslashes alone there. In the
# text of `bash -c 'text' a b c`, `$0` is a, and `"$@"` is b and c. (Lesson 09
# exported the first node's name; `bash -c` can hand it over as a word.)


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
# What your lines tell each node:

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
# The course's own `slurm/ddp_baseline.sbatch` does the same, but computes the
# port from the job's number, so that two jobs on one node do not meet.
#
# ## How does a job end?
#
# Every program ends with an **exit code**: 0 for success, another number for
# a failure. Slurm believes the script's exit code, and a script ends with the
# code of its **last** command. A job whose training fails:

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
# COMPLETED, so nobody has a reason to look. With `set -e` at its top, a script
# ends at the first command that fails, with that command's code. (`set -e`
# ignores a failure that the script itself tests, after `if` or before `||`,
# and in `a | b` it looks only at b.)

# %%
for head in ("", "set -e"):
    ended = practice_cluster.run(f"{head}\nfalse\necho all done")
    print(f"{head or 'without it':<12} exit code {ended.code}")
assert ended.code == 1

# %% [markdown]
# One failed task is enough to make `srun` fail. But by default `srun` first
# waits for all the others, and ranks that wait for a dead one wait until
# their time-out. `--kill-on-bad-exit=1` ends them:

# %%
one_fails = """\
#!/bin/bash
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --time=5
for option in --kill-on-bad-exit=0 --kill-on-bad-exit=1; do
  begin=$SECONDS
  srun $option bash -c '[ "$SLURM_PROCID" = 1 ] || exit 3
    sleep 6; echo "task 1 waited for nothing"' 2>/dev/null
  code=$?
  echo "$option: $((SECONDS - begin)) s, exit code $code"
done
"""
seen = cluster.scene("one_fails", one_fails)
assert seen["log"].count("waited for nothing") == 1

# %% [markdown]
# `srun` ends with the highest code of its tasks. The first time that is 3. The
# second time the other task was ended by signal 15, which asks a program to
# stop, and counts as 128 + 15 = 143.
#
# ## A warning before the end
#
# At the time limit Slurm kills everything. `#SBATCH --signal=B:USR1@120` asks
# for a warning: Slurm sends the **signal** SIGUSR1, a number that interrupts a
# program, to the batch script (B), 120 seconds before the limit or up to 60
# seconds earlier still (https://slurm.schedmd.com/sbatch.html, "--signal"). A
# **trap** tells bash what to do when a signal comes. `kill -USR1 N` sends the
# signal to process N. A command with `&` at its end runs in the background,
# while the script continues; `$!` is the number of its process.
#
# Here are two scripts and a training of 3 s. When the training gets SIGUSR1 it
# writes a checkpoint, which takes 0.2 s, and ends with exit code 75, which
# this course uses for "stopped, but not done". In the output *ready* means
# that the training runs, *told* that it gets the signal, *checkpoint* that its
# checkpoint is written, *end* that it ends by itself, and *over* that the
# script ends. Times are seconds after the signal.

# %%
scripts = {
    "in the foreground": """
trap 'echo the warning came' USR1
"$@"
""",
    "in the background, one wait": """
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
first = ended["in the foreground"]
learn.measured(
    "when_trapped",
    "when the training ends by itself"
    if first.when("told") is None
    else "at once",
)
assert first.when("told") is None and first.when("end") is not None
assert ended["in the background, one wait"].when("checkpoint") is None

# %% [markdown]
# **In the foreground**: bash waits for the command and looks at its trap only
# when the command is over; a long training meets the limit first. **In the
# background** the script itself has to wait: `wait` does that, but a signal
# with a trap ends the wait. The script then runs on to its end, and the job
# ends with it, before the checkpoint is written.
#
# `wait N` leaves a code in `$?`: the exit code of process N if that has ended,
# but 128 + the signal's number if a signal cut the wait short. A worked
# example waits twice and looks at both codes, first without and then with
# `set -e`:

# %%
two_waits = """
"$@" &
training=$!
trap 'kill -USR1 "$training"' USR1
wait "$training"
echo "the first wait returned $?"
wait "$training"
echo "the second wait returned $?"
"""
for head in ("", "set -e"):
    end = timeline(head + two_waits)
    saved = end.when("checkpoint") is not None and "saved"
    print(f"{head or 'without set -e'}: {saved or 'no checkpoint'}")
    print(end.output)
    assert bool(saved) == ("second wait returned 75" in end.output)

# %% [markdown]
# The first code is 128 + 10, SIGUSR1's number on Linux: the signal cut that
# wait short. The second is the training's own 75. With `set -e` the script
# ends at the first wait, because any code other than 0 counts as a failure.
# `wait "$training" || code=$?` keeps `set -e` out of it.
#
# Two waits are not enough, because a second signal would cut the second one
# short as well. So the script has to wait in a loop. But how does it know why
# a `wait` returned: because of a signal, or because the training has ended?
#
# ## Exercise 2: survive
#
# ●●● *18 minutes.* Write a script that
#
# - runs the training `"$@"`, and ends with the training's exit code;
# - hands each SIGUSR1 on to it, and waits until the training has ended;
# - calls `scontrol requeue "$SLURM_JOB_ID"` if that code is 75, and only then.
#
# Slurm then puts the job back into the queue, under the same number.


# %% tags=["exercise"]
def survive():
    """A batch script that survives its time limit; "$@" is the training."""
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
from lesson.pictures import draw_told

ended["yours"] = timeline(learn.given("survive")())
draw_told(ended)

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
saved = ended["yours"].when("checkpoint")
learn.my_run("from the warning to the checkpoint", saved, "s")
assert ended["yours"].code == 75

# %% [markdown]
# Now a real job is warned, requeued and completed. Its training counts to 8
# and keeps in a file how far it came. `#SBATCH --requeue` allows Slurm to put
# the job back into the queue, and `--open-mode=append` makes the second start
# write to the end of the log, where it would otherwise begin a new one.
# `$SLURM_RESTART_COUNT` counts the restarts; `${SLURM_RESTART_COUNT:-0}` is 0
# where it is not set. (The test cluster is set to wait only seconds before the
# second start; Slurm's default is 120 s:
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
# Every step ran once: none was lost and none was repeated. (`scontrol requeue`
# ends the job at once, even before its `exit`; then the log may call it
# CANCELLED, "due to job requeue".) Here `scancel --signal` sent the signal;
# before the time limit Slurm sends the same one to a script that asked for it
# with `--signal=B:USR1@…`.
#
# ## Both halves in one script
#
# Can you put exercise 1 in place of `"$@"` in exercise 2? Now the signal has
# farther to go: from the script to `srun`, from `srun` to `torchrun` on each
# node, from there to the ranks. `srun` hands SIGUSR1 on. And torchrun?

# %%
HANDLE = "--signals-to-handle=SIGTERM,SIGINT,SIGHUP,SIGQUIT,SIGUSR1"
signals = f"""\
#!/bin/bash
#SBATCH --time=5
cat > rank.sh <<'END'
trap 'echo "rank $RANK saves, and ends with 75"; exit 75' USR1
touch "ready-$1-$RANK"
for tenth in $(seq 50); do sleep 0.1; done
END
for option in --signals-to-handle=SIGTERM {HANDLE}; do
  rm -f ready-*
  torchrun --standalone --nproc-per-node=2 $option --no-python \\
    bash rank.sh "$SLURM_JOB_ID" 2>/dev/null &
  until [ -e "ready-$SLURM_JOB_ID-0" ] && [ -e "ready-$SLURM_JOB_ID-1" ]
  do sleep 0.1; done
  kill -USR1 $!
  wait $! 2>/dev/null
  echo "$option: torchrun ended with $?"
done
"""
seen = cluster.scene("signals", signals)
assert seen["log"].count("saves, and ends with 75") == 2
assert f"{HANDLE}: torchrun ended with 1" in seen["log"]

# %% [markdown]
# `--signals-to-handle` names the signals that torchrun passes on to its ranks.
# SIGUSR1 is not in the first list, so it ended torchrun itself (138 is 128 +
# 10), and no rank heard of it. With the second list both ranks ended with 75,
# yet **torchrun ended with 1**: it makes 1 of every failure. So the training
# leaves a file that says "stopped, but not done", and the script looks for
# that file. This is the training; with an `all_reduce` in every step the ranks
# agree after which step they all stop:

# %%
training = """\
import os, signal, sys, time
from pathlib import Path
import torch
import torch.distributed as dist

job = os.environ["SLURM_JOB_ID"]
saved, stopped, told = Path(f"at-{job}"), Path(f"stopped-{job}"), []
signal.signal(signal.SIGUSR1, lambda *_: told.append(True))
dist.init_process_group("gloo")
step = int(saved.read_text()) if saved.exists() else 0
while step < 8:
    step += 1
    time.sleep(0.5)
    stop = torch.tensor(len(told))
    dist.all_reduce(stop)
    if dist.get_rank() == 0:
        print("step", step, "on", dist.get_world_size(), "ranks", flush=True)
        if stop:
            saved.write_text(str(step))
            stopped.touch()
    if stop:
        dist.barrier()
        sys.exit(75)
dist.destroy_process_group()
"""

# %% [markdown]
# And this is the one script: exercise 1, in the background, inside exercise 2.
# `exec` puts torchrun in the place of the bash that started it, so that the
# signal from `srun` reaches torchrun. Each node runs two ranks here, without
# GPUs; on your own cluster put `$SLURM_GPUS_ON_NODE` in place of the 2, and
# your training in place of the counting.

# %%
both = f"""\
#!/bin/bash
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=2
#SBATCH --time=5
#SBATCH --signal=B:USR1@120
#SBATCH --requeue
#SBATCH --open-mode=append
echo "start ${{SLURM_RESTART_COUNT:-0}}"
cat > count_ranks.py <<'END'
{training}END
set -- count_ranks.py
rm -f "stopped-$SLURM_JOB_ID"

first=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
port=$((20000 + SLURM_JOB_ID % 10000))
srun --kill-on-bad-exit=1 --cpus-per-task="$SLURM_CPUS_PER_TASK" \\
  bash -c 'exec torchrun --nnodes="$SLURM_NNODES" \\
  --node-rank="$SLURM_NODEID" --nproc-per-node=2 \\
  --master-addr="$0" --master-port="$1" \\
  {HANDLE} "${{@:2}}"' \\
  "$first" "$port" "$@" 2>"errors-$SLURM_JOB_ID.log" &
training=$!
trap 'told=yes; kill -USR1 "$training"' USR1
while true; do
  told=no
  wait "$training"
  code=$?
  [ "$told" = yes ] || break
done
echo "srun ended with $code"
if [ -e "stopped-$SLURM_JOB_ID" ]; then
  code=75
  scontrol requeue "$SLURM_JOB_ID"
fi
exit "$code"
"""
seen = cluster.scene("both", both, when="step 3 on", then=told)
steps = [
    int(line.split()[1])
    for line in seen["log"].splitlines()
    if line.endswith("on 4 ranks")
]
assert steps == list(range(1, 9))
assert "start 1" in seen["log"] and seen["exit_code"] == "0:0"

# %% [markdown]
# All four ranks stopped after the same step and resumed at the next, so every
# step ran once. The first `srun` ends with 1 or with 143: as soon as one
# torchrun has ended with 1, `--kill-on-bad-exit=1` ends the other by signal
# 15, unless that has ended with 1 as well. Neither number is 75, so the script
# asks the file. `slurm/ddp_baseline.sbatch` is this script with a real
# training.
#
# What is a warning before the end worth? Each job pays for its start, and a
# job that is cut off loses everything since its last checkpoint. In this
# computed figure that is, on average, half of the time between two
# checkpoints:

# %%
learn.what_if("pieces")

# %% [markdown]
# ## An array is a study
#
# `#SBATCH --array=0-5%2` runs one script six times, at most two of them at a
# time. Each of these six **array tasks** is a job of its own (not one of
# `srun`'s tasks), and `SLURM_ARRAY_TASK_ID`, 0 to 5, tells which one. So a
# study needs a function from an index to the settings of a run.
#
# ## Exercise 3: which run am I? (stretch)
#
# ●●○ *10 minutes.* `axes` is a dict such as `{"ranks": [1, 2, 4],
# "precision": ["fp32", "bf16"]}`. Return the settings of run `index` together
# with its `repeat`, both counted from 0: `{"ranks": 1, "precision": "fp32",
# "repeat": 0}`. Every run comes once. All settings come once before any is
# repeated, so that a busy hour does not hit one setting alone. For an index
# beyond the last run, return None.


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
    ["array task", *runs[0]],
    "An array of eight tasks, `--array=0-7%2`",
)

# %%
array = """\
#!/bin/bash
#SBATCH --array=0-5%2
#SBATCH --time=5
echo "array task $SLURM_ARRAY_TASK_ID of $SLURM_ARRAY_JOB_ID" \\
  "is job $SLURM_JOB_ID"
sleep 1
"""
seen = cluster.scene("array", array)
rows = sorted(line.split() for line in seen["log"].splitlines())
assert [row[2] for row in rows] == [*"012345"]
assert [row[2] for row in rows if row[4] == row[7]] == ["5"]

# %% [markdown]
# Look at the last array task: its job number **is** the array's. If it
# requeues that number, *all* array tasks start again. `scontrol requeue
# "${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID"` requeues one array task alone.
#
# `dtlib study strong images --ranks 1,2,4 --part $SLURM_ARRAY_TASK_ID` runs
# one run of the course's studies, and `slurm/ddp_strong_scaling.sbatch` is
# the array around it.
#
# ## A notebook as a job
#
# **papermill** executes a notebook from the command line: it puts your values
# into a new cell after the one tagged `parameters`, runs all cells, and saves
# the notebook with its outputs. A small notebook:

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
# And with a typo in the parameter's name?

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
# A warning among the other lines of a log, and exit code 0. The course
# refuses such a name, here and in `dtlib batch submit`, before the job is in
# the queue:

# %%
try:
    learn.shell("dtlib lessons run 07 -p rankz=4", quiet=True)
except learn.CommandFailed as failed:
    print(failed)

# %% [markdown]
# In a job, `papermill` is one more command whose exit code must not get lost:

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
# FAILED, as it should be, and the notebook is saved as far as it ran. Two more
# traps:
#
# - When the process that runs the cells (the notebook's **kernel**) *dies*,
#   out of memory for instance, papermill 2.7 ends with an error, but its
#   notebook calls every cell "completed", even those that never ran. Believe
#   the exit code, and count the cells that ran.
# - When *papermill* is killed, at the time limit for instance, what the
#   running cell printed since the last **autosave** is lost. Autosave comes
#   every 30 seconds by default. One cell prints a step every tenth of a
#   second; papermill is killed after 25 steps:

# %%
import shlex

slow = """\
from pathlib import Path
from time import sleep
for step in range(100):
    print("step", step)
    Path("{file}").write_text(str(step))
    sleep(0.1)
"""
killed = """
for seconds in 30 1; do
  ( papermill slow-$seconds.ipynb out-$seconds.ipynb \
      --autosave-cell-every $seconds >/dev/null 2>&1 & pid=$!
    until [ "$(cat step-$seconds 2>/dev/null || echo 0)" -ge 25 ]
    do sleep 0.1; done
    kill -KILL $pid ) &
done
wait
"""
for seconds in (30, 1):
    notebook.cells = [
        nbformat.v4.new_code_cell(slow.format(file=f"step-{seconds}"))
    ]
    nbformat.write(notebook, f"slow-{seconds}.ipynb")
learn.shell(f"bash -c {shlex.quote(killed)}", quiet=True)
kept = {
    seconds: len(printed(f"out-{seconds}.ipynb").splitlines())
    for seconds in (30, 1)
}
print("lines kept, by seconds between two autosaves:", kept)
assert kept[1] > 5 > kept[30]

# %% [markdown]
# ## Exercise 4: what next? (stretch)
#
# ●●○ *8 minutes.* In the morning you look at fifty jobs. For each one, return
# `"done"`, `"again"` (resume it from its checkpoint) or `"mend"` (it would
# fail again, so look at it first). You are given an object `job` with:
#
# | field | what it is |
# | --- | --- |
# | `job.state` | COMPLETED, FAILED, TIMEOUT, NODE_FAIL, OUT_OF_MEMORY, or PREEMPTED: it had to make room for another job |
# | `job.exit_code` | of its script; 75 means: stopped with a checkpoint |
# | `job.began_at`, `job.step` | the step from which this start of the job continued, and the last one it did |
# | `job.steps` | how many steps the training should do |
# | `job.ran`, `job.cells` | how many cells of its notebook ran, and how many there are |


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
# ## Commands for the next morning
#
# | command | what it answers or does |
# | --- | --- |
# | `sinfo` | which nodes are idle, by **partition**: a group of nodes with a queue of its own |
# | `squeue --me --start` | why my jobs wait, and when Slurm expects to start them |
# | `sacct -j 4711 -o jobid,state,exitcode,elapsed,maxrss` | how a job and each of its `srun` steps ended, and how much memory they used; also days later, where the site keeps accounts |
# | `scontrol show job 4711` | everything about a job that waits, runs or has just ended |
# | `salloc --nodes=2 --time=20` | gives *you* two nodes now: try the `srun` line by hand before you submit it |
# | `sbatch --dependency=afterok:4711 next.sbatch` | submits a job that waits until job 4711 has ended with exit code 0 |
#
# If the ranks do not meet on GPUs, set `NCCL_DEBUG=INFO` for a short job.
# **NCCL** is the library that carries out collectives between NVIDIA GPUs, as
# **gloo** does between CPUs; it then logs which network interface it chose
# (a wrong one is a common cause; `NCCL_SOCKET_IFNAME` names the right one:
# https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html).
#
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
# the notebook gets the signal, all its ranks agree on a step and write the
# checkpoint; the job then requeues itself, and `resume=True` continues.

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
# - A batch script runs once; `srun` runs a command on every node. A variable
#   that differs between nodes must be replaced *there*.
# - The state of a job that ends by itself follows from its script's exit code.
#   Never lose it, neither behind an `echo` nor behind torchrun, which makes 1
#   of every failure.
# - A job that is warned in time, waits for the checkpoint and requeues itself
#   loses no step. A job that requeues itself whatever happens never ends.
# - The number of an array task is an index. Turn it into settings so that none
#   is missing and none comes twice.

# %%
learn.take_away()
