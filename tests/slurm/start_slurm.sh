#!/usr/bin/env bash
# start_slurm.sh DIR: a real Slurm of two nodes on this one machine, for tests. Needs root, and the
# packages slurm-wlm and munge (Debian). All files lie under DIR, which everybody must be able to enter
# (munge insists): no systemd, nothing in /etc.
#
#   tests/slurm/start_slurm.sh /tmp/slurm; . /tmp/slurm/env.sh; sinfo
#   tests/slurm/stop_slurm.sh /tmp/slurm
#
# Each node is a network namespace with an address, a host name and an /etc/hosts of its own. So a
# wrong address hangs here as it does on a cluster. Exit code 69: this machine cannot do that.
set -euo pipefail
NODES=2 CPUS=8 MEMORY=256000 GPUS=2 # what each node claims to have
NET=10.77.17 PORT=16917            # of the controller; node i has PORT + i

mkdir -p "${1:?usage: start_slurm.sh DIR}"
DIR=$(cd "$1" && pwd)
cd "$DIR"
export SLURM_CONF=$DIR/etc/slurm.conf PATH=$PATH:/usr/sbin:/sbin
HOST=$(hostname -s)

unable() { echo "start_slurm: $*" >&2; exit 69; }

# A zombie still answers kill -0, but has no command line.
alive() { [ -s "run/$1.pid" ] && grep -qa "${1%%-*}" "/proc/$(cat "run/$1.pid")/cmdline" 2>/dev/null; }

wait_for() { # wait_for SECONDS COMMAND…
  for _ in $(seq $(($1 * 10))); do
    "${@:2}" >/dev/null 2>&1 && return
    sleep 0.1
  done
  echo "start_slurm: this did not happen within $1 s: ${*:2}; see $DIR/log" >&2
  return 1
}

nodes_up() { [ "$(sinfo -hN -o '%N %t' | sort -u | grep -cE ' (idle|mix|alloc|comp)$')" = "$NODES" ]; }

check_machine() {
  [ "$(id -u)" = 0 ] || unable "network namespaces need root"
  local program
  for program in munged slurmctld slurmd sbatch ip nsenter; do
    command -v "$program" >/dev/null || unable "there is no $program (apt install slurm-wlm munge iproute2)"
  done
  ip netns add dtlib-probe 2>/dev/null || unable "this machine allows no network namespaces"
  ip netns del dtlib-probe
}

make_folders() {
  mkdir -p etc log run state munge dev
  chmod 700 munge # munged refuses a folder or a key that others may read
  [ -s munge/munge.key ] || (umask 377; head -c 256 /dev/urandom >munge/munge.key)
  for i in $(seq "$NODES"); do mkdir -p "spool/n$i"; done # slurmd ends at once without it
  # A GPU is a character device; its last number becomes its index in CUDA_VISIBLE_DEVICES.
  for ((g = 0; g < GPUS; g++)); do ln -sfn /dev/null "dev/nvidia$g"; done
}

make_network() {
  # "myself" is what Debian makes of a machine's own name; at n3 there is nobody.
  printf '127.0.0.1 localhost\n127.0.1.1 myself\n%s.254 %s\n%s.99 n3\n' "$NET" "$HOST" "$NET" >etc/hosts
  for i in $(seq "$NODES"); do echo "$NET.$i n$i" >>etc/hosts; done
  if [ ! -e /sys/class/net/dtlib0 ]; then
    ip link add dtlib0 type bridge
    ip addr add "$NET.254/24" dev dtlib0
    ip link set dtlib0 up
  fi
  for i in $(seq "$NODES"); do
    [ ! -e "/run/netns/dtlib-n$i" ] || continue
    ip link del "dtlib$i" 2>/dev/null || true # a namespace lives on while a process is in it
    ip netns add "dtlib-n$i"
    ip link add "dtlib$i" type veth peer name eth0 netns "dtlib-n$i"
    ip link set "dtlib$i" master dtlib0 up
    ip -n "dtlib-n$i" addr add "$NET.$i/24" dev eth0
    ip -n "dtlib-n$i" link set eth0 up
    ip -n "dtlib-n$i" link set lo up
  done
}

write_configuration() {
  local lines=(
    ClusterName=dtlib "SlurmctldHost=$HOST($NET.254)" "SlurmctldPort=$PORT" SlurmUser=root SlurmdUser=root
    # A munge of our own. A requeued job starts again cred_expire + 1 s later (121 s by default).
    AuthType=auth/munge "AuthInfo=socket=$DIR/run/munge.sock,cred_expire=5"
    "SlurmctldPidFile=$DIR/run/slurmctld.pid" "SlurmctldLogFile=$DIR/log/slurmctld.log"
    "SlurmdPidFile=$DIR/run/slurmd-%n.pid" "SlurmdLogFile=$DIR/log/slurmd-%n.log"
    "SlurmdSpoolDir=$DIR/spool/%n" "StateSaveLocation=$DIR/state"
    # No cgroups: the processes of a job are found by their parents.
    ProctrackType=proctrack/linuxproc TaskPlugin=task/none JobAcctGatherType=jobacct_gather/none
    MpiDefault=none MailProg=/bin/true
    SelectType=select/cons_tres SelectTypeParameters=CR_CPU_Memory DefMemPerCPU=500 GresTypes=gpu
    SlurmdParameters=config_overrides # nodes may claim more than the machine has
    # A lost node is seen after 20 s, SIGKILL follows SIGTERM after 5 s, ended jobs stay known.
    ReturnToService=2 SlurmdTimeout=20 KillWait=5 MinJobAge=86400
    "SchedulerParameters=batch_sched_delay=0,sched_interval=5,sched_min_interval=10000,bf_interval=2"
  )
  for i in $(seq "$NODES"); do
    lines+=("NodeName=n$i NodeHostname=n$i NodeAddr=$NET.$i Port=$((PORT + i)) CPUs=$CPUS \
RealMemory=$MEMORY Gres=gpu:$GPUS")
  done
  lines+=("PartitionName=test Nodes=ALL Default=YES DefaultTime=10 MaxTime=60 State=UP")
  printf '%s\n' "${lines[@]}" >"$SLURM_CONF"
  echo "Name=gpu File=$DIR/dev/nvidia[0-$((GPUS - 1))]" >etc/gres.conf
  echo CgroupPlugin=cgroup/v1 >etc/cgroup.conf # the automatic choice fails without /sys/fs/cgroup
  echo "export SLURM_CONF=$SLURM_CONF" >env.sh
}

# Each daemon goes into the background by itself and writes its process number into run/.
start_daemons() {
  alive munged || munged --key-file="$DIR/munge/munge.key" --socket="$DIR/run/munge.sock" \
    --pid-file="$DIR/run/munged.pid" --log-file="$DIR/log/munged.log" --seed-file="$DIR/munge/seed"
  # With the old state a controller shows nodes as idle before they have answered.
  alive slurmctld || { rm -f state/node_state*; slurmctld -i; }
  for i in $(seq "$NODES"); do
    if alive "slurmd-n$i"; then continue; fi
    # Not `ip netns exec`, which hides /sys/fs/cgroup.
    # shellcheck disable=SC2016
    nsenter --net="/run/netns/dtlib-n$i" unshare --uts --mount --propagation slave sh -c \
      'mount --bind etc/hosts /etc/hosts; hostname "$1"; exec slurmd -N "$1"' _ "n$i"
  done
}

check_machine
make_folders
make_network
write_configuration
trap 'echo "start_slurm: $(tail -n 1 log/start.log); see $DIR/log" >&2' EXIT
start_daemons >log/start.log 2>&1
trap - EXIT
wait_for 30 nodes_up
echo "start_slurm: up; use it by: . $DIR/env.sh"
