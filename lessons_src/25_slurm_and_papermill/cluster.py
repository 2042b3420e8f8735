"""Jobs on this machine's Slurm; where there is none, the same jobs as another cluster ran them.

A lesson calls `scene` with a script. On a cluster that is a real job, followed until its end; on a
laptop it is the recorded job, shown with where and when it ran. `keep` writes the record of a live
session.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dtlib.errors import DtlibError
from dtlib.learn.recorded import keep_record, recorded
from dtlib.learn.show import say
from dtlib.ranks.environment import JOB_ENDED

Scene = dict[str, Any]
"""`script`, `options`, `log`, `exit_code`; `states`: seconds since the submission, state, why."""

SHOWN = 8  # lines of a long log's beginning and end


class Cluster:
    """A session with Slurm, live or recorded.

    Parameters
    ----------
    record
        The name of the record, in the folder of recorded results.
    env
        The environment in which `sbatch` finds the cluster's account and partition.
    patience
        Seconds that a job may take, including its time in the queue. A job that takes longer is
        cancelled, and it and all later ones are shown from the record.

    Attributes
    ----------
    live
        Whether jobs are really submitted.
    """

    def __init__(self, record: str, env: Mapping[str, str] | None = None, patience: float = 180.0):
        variables = dict(os.environ if env is None else env)
        # Inside a job, this job's own variables would be taken for those of the new one.
        keep = ("SLURM_CONF",)
        self._env = {k: v for k, v in variables.items() if not k.startswith("SLURM") or k in keep}
        self._patience = patience
        self._name = record
        self._folder = Path("jobs").resolve()
        # A job finds the programs of this Python, as the notebook does.
        own = str(Path(sys.executable).parent)
        self._env["PATH"] = os.pathsep.join([own, self._env.get("PATH", "")])
        self._seen: dict[str, Scene] = {}
        self._record: Mapping[str, Any] | None = None
        self.live = bool(shutil.which("sbatch")) and self._ask("sinfo", "-h") != ""
        if self.live:
            say("A real Slurm.", "The jobs of this lesson run on it, each when its turn comes.")
            self._folder.mkdir(exist_ok=True)

    def scene(
        self, name: str, script: str, *options: str, when: str = "", then: Sequence[str] = ()
    ) -> Scene:
        """Submit a script, follow the job to its end, and show its states and its log.

        Parameters
        ----------
        name
            Of the script's file, and of the job.
        options
            For sbatch.
        when, then
            Once the log holds the text `when`, the command `then` is run; `{id}` in it is the job's
            number.
        """
        if self.live:
            found = self._submit(name, script, options, when, then)
            if found is not None:
                self._seen[name] = found
                _show(name, found)
                return found
            self.live = False
            say("The queue is long.", f"{name} was not done after {self._patience:g} s.")
        found = self._recorded()[name]
        if (found["script"], found["options"]) != (script, list(options)):
            if os.environ.get("DTLIB_STRICT"):
                raise DtlibError(
                    f"the job {name} was recorded with another script; record it again."
                )
            print("(This one ran with the course's own script.)")
        _show(name, found)
        return found

    def keep(self) -> Path:
        """Write what was seen as the record.

        Raises
        ------
        DtlibError
            When the session is not live.
        """
        if not self.live:
            raise DtlibError("this session has no real Slurm, so there is nothing to record.")
        version = self._ask("sbatch", "--version").strip()
        nodes = self._ask("sinfo", "-h", "-o", "%D").split()
        results = {"slurm": version, "nodes": sum(map(int, nodes)), "scenes": self._seen}
        return keep_record(self._name, results, ("papermill",))

    def _recorded(self) -> Mapping[str, Any]:
        if self._record is None:
            found = recorded(self._name)
            print(f"These jobs ran on {found['nodes']} nodes under {found['slurm']}.")
            self._record = found["scenes"]
        return self._record

    def _submit(
        self, name: str, script: str, options: Sequence[str], when: str, then: Sequence[str]
    ) -> Scene | None:
        (self._folder / f"{name}.sbatch").write_text(script)
        for old in self._folder.glob(f"{name}-*.log"):
            old.unlink()
        command = ["sbatch", "--parsable", f"--chdir={self._folder}"]
        command += [f"--output={self._folder}/{name}-%A%a.log", *options]
        done = self._run(*command, f"{self._folder}/{name}.sbatch")
        if done.returncode:
            said = (done.stderr.strip().splitlines() or ["no message"])[-1]
            raise DtlibError(f"sbatch refused the job: {said.removeprefix('sbatch: error: ')}.")
        number = done.stdout.strip().partition(";")[0]
        begin = time.monotonic()
        states: list[list[Any]] = []
        while time.monotonic() - begin < self._patience:
            told = self._states(number)
            if told and (not states or told != states[-1][1:]):
                states.append([round(time.monotonic() - begin, 1), *told])
            if told and {word.split()[-1] for word in told[0].split(", ")} <= {*JOB_ENDED}:
                return self._scene(name, script, options, number, states)
            if when and when in self._log(name, number):
                self._run(*(word.format(id=number) for word in then))
                when = ""
            time.sleep(0.2)
        self._run("scancel", number)
        return None

    def _scene(
        self, name: str, script: str, options: Sequence[str], number: str, states: list[list[Any]]
    ) -> Scene:
        codes = re.findall(r"ExitCode=(\S+)", self._ask("scontrol", "-o", "show", "job", number))
        return {
            "script": script, "options": list(options), "states": states,
            "log": self._log(name, number), "exit_code": ", ".join(sorted(set(codes))),
        }  # fmt: skip

    def _states(self, number: str) -> list[str]:
        """The state of a job, or how many tasks of an array are in each state; and why it waits."""
        shown = self._ask("scontrol", "-o", "show", "job", number)
        found = Counter(re.findall(r"JobState=(\S+)", shown))
        if not found:
            return []
        several = sum(found.values()) > 1
        words = [f"{n} × {state}" if several else state for state, n in sorted(found.items())]
        reasons = {r for r in re.findall(r"Reason=(\S+)", shown) if r != "None"}
        return [", ".join(words), ", ".join(sorted(reasons)) if "PENDING" in found else ""]

    def _log(self, name: str, number: str) -> str:
        logs = sorted(self._folder.glob(f"{name}-*.log"))
        text = "".join(path.read_text(errors="replace") for path in logs)
        # A record holds no path of the machine that made it.
        return text.replace(str(self._folder), "~").replace(sys.prefix, "~/env")

    def _run(self, *command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(command, env=self._env, capture_output=True, text=True, timeout=60)

    def _ask(self, *command: str) -> str:
        try:
            return self._run(*command).stdout
        except (OSError, subprocess.TimeoutExpired):
            return ""


def _show(name: str, scene: Scene) -> None:
    """Print a job as a terminal would have shown it."""
    print(f"$ {' '.join(['sbatch', *scene['options'], name + '.sbatch'])}")
    for seconds, state, reason in scene["states"]:
        print(f"{seconds:>6.1f} s  {state}" + (f"  ({reason})" if reason else ""))
    lines = scene["log"].rstrip().splitlines()
    if len(lines) > 2 * SHOWN:
        lines = [*lines[:SHOWN], f"… {len(lines) - 2 * SHOWN} lines …", *lines[-SHOWN:]]
    print(f"exit code {scene['exit_code']}; its log:")
    print("\n".join(f"    {line}" for line in lines))
