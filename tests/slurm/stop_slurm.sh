#!/usr/bin/env bash
# stop_slurm.sh DIR: end what start_slurm.sh DIR started: its jobs, its daemons (by the numbers in
# DIR/run, each first seen to be that daemon), its network namespaces. The files stay in DIR.
set -uo pipefail
cd "${1:?usage: stop_slurm.sh DIR}" || exit 1
export SLURM_CONF=$PWD/etc/slurm.conf PATH=$PATH:/usr/sbin:/sbin

alive() { [ -s "run/$1.pid" ] && grep -qa "${1%%-*}" "/proc/$(cat "run/$1.pid")/cmdline" 2>/dev/null; }

end() { # end NAME…: SIGTERM, then SIGKILL after 10 s
  local name
  for name; do
    if alive "$name"; then
      kill "$(cat "run/$name.pid")"
      for _ in $(seq 100); do alive "$name" || break; sleep 0.1; done
      if alive "$name"; then kill -9 "$(cat "run/$name.pid")"; fi
    fi
    rm -f "run/$name.pid"
  done
}

# Jobs first: the process that watches over a job's processes outlives its slurmd.
if alive slurmctld && timeout 5 scontrol ping >/dev/null 2>&1; then
  squeue -h -o %A | sort -u | xargs -r scancel
  for _ in $(seq 150); do [ -n "$(squeue -h -t R,CG,CF,S -o %A)" ] || break; sleep 0.1; done
fi
for file in run/slurmd-*.pid; do [ ! -e "$file" ] || end "$(basename "$file" .pid)"; done
end slurmctld munged
for namespace in /run/netns/dtlib-n*; do
  [ -e "$namespace" ] || continue
  name=$(basename "$namespace")
  ip netns del "$name"
  # The kernel takes its time with a namespace, and so with its link.
  ip link del "dtlib${name#dtlib-n}" 2>/dev/null
done
ip link del dtlib0 2>/dev/null
exit 0
