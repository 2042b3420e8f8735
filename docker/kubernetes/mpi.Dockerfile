# The course's image with what the MPI Operator needs (operators/mpijob.yaml):
#
#   docker build --file docker/kubernetes/mpi.Dockerfile --tag dtlib-mpi .
# hadolint ignore=DL3007
FROM dtlib:latest
USER 0:0
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends openmpi-bin openssh-client openssh-server \
    && rm -rf /var/lib/apt/lists/*
# User 1000 cannot listen on port 22. The operator makes new keys for each job, so nobody knows them.
RUN printf '%s\n' 'Host *' '  Port 2222' '  StrictHostKeyChecking no' \
        '  UserKnownHostsFile /dev/null' > /etc/ssh/ssh_config.d/mpi.conf \
    && printf '%s\n' 'Port 2222' 'PidFile /home/student/sshd.pid' 'UsePAM no' 'StrictModes no' \
        'HostKey /home/student/.ssh/id_rsa' 'AuthorizedKeysFile /home/student/.ssh/authorized_keys' \
        > /home/student/sshd_config
USER 1000:1000
