"""A private Slurm cluster on loopback, without systemd and without the system's own configuration: one munged, one
slurmctld and three `slurmd -N` on this machine, each with four devices that Slurm takes for GPUs. Everything lies in one
folder and everything started here is ended here, by process id.

By hand: `python3 cluster.py FOLDER` starts one, prints its SLURM_CONF once all nodes are idle, and ends it when its
standard input is closed or it gets SIGTERM; with --stay only at the signal. FOLDER should have a short path, since below
it are sockets."""
import contextlib
import os
import pwd
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time

PATIENCE_S = float(os.environ.get("DRIFTGATE_TEST_PATIENCE_S", "300"))
PATH = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin", "/usr/bin"])
PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "squeue", "scancel", "scontrol", "sinfo")

# Short times, so that a test sees in seconds what takes minutes on a cluster.
CONF = """\
ClusterName={name}
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ctld_port}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
StateSaveLocation={folder}/state
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/%n.pid
SlurmdSpoolDir={folder}/spool-%n
SlurmctldDebug=info
SlurmdDebug=info
SlurmdLogFile={folder}/%n/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SwitchType=switch/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SlurmdParameters=config_overrides
GresTypes=gpu
MpiDefault=none
ReturnToService=2
JobRequeue=1
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
JobCompType=jobcomp/filetxt
JobCompLoc={folder}/completed.txt
SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=0,sched_interval=1,bf_interval=1
SlurmctldTimeout=30
SlurmdTimeout={slurmd_timeout}
BatchStartTimeout=120
MessageTimeout=20
KillWait={kill_wait}
OverTimeLimit=0
MinJobAge={min_job_age}
DebugFlags=NO_CONF_HASH
InactiveLimit=0
FirstJobId=1000
NodeName=DEFAULT CPUs={cpus} RealMemory={memory} Gres=gpu:4 State=UNKNOWN
{nodes}
PartitionName=DEFAULT Nodes=ALL MaxTime=INFINITE DefaultTime=10 DefMemPerCPU=64 State=UP
PartitionName=normal Default=YES PriorityTier=1 PreemptMode=REQUEUE
PartitionName=urgent PriorityTier=10 PreemptMode=OFF
"""


class Trouble(AssertionError):
    pass


def lacking():
    """Why no cluster can run here; empty when one can."""
    missing = [name for name in PROGRAMS if shutil.which(name, path=PATH) is None]
    return f"not installed: {', '.join(missing)} (Debian's slurm-wlm and munge)" if missing else ""


def wait_for(what, probe, seconds=None):
    """The first true value of probe(); an error by name when there is none in time."""
    end = time.monotonic() + (seconds or PATIENCE_S)
    while True:
        value = probe()
        if value:
            return value
        if time.monotonic() > end:
            raise Trouble(f"waited {seconds or PATIENCE_S:.0f} s in vain for {what}")
        time.sleep(0.05)


def held_port():
    """A socket on a free port of loopback. While it is open the kernel gives the port to nobody who did not ask for it
    by its number; Slurm's daemons listen with SO_REUSEADDR and get it."""
    holder = socket.socket()
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    holder.bind(("127.0.0.1", 0))
    return holder


def processes():
    """(pid, parent, environment) of each process that can be looked at."""
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with contextlib.suppress(OSError, IndexError):
                with open(f"/proc/{entry}/stat", encoding="utf-8", errors="replace") as stat:
                    fields = stat.read().rsplit(")", 1)[1].split()
                if fields[0] in "ZX":
                    continue
                with open(f"/proc/{entry}/environ", "rb") as environ:
                    yield int(entry), int(fields[1]), environ.read().split(b"\0")


class Host:
    """A folder with the configuration of one of the cluster's hosts, and the Slurm daemon that runs there."""

    def __init__(self, cluster, name):
        self.cluster, self.name, self.port = cluster, name, held_port()
        self.folder = os.path.join(cluster.folder, name)
        self.conf = os.path.join(self.folder, "slurm.conf")
        self.environment = {"PATH": PATH, "SLURM_CONF": self.conf, "LANG": "C.UTF-8", "HOME": cluster.folder}
        self.process = None

    def write(self):
        os.mkdir(self.folder, 0o755)
        with open(self.conf, "w", encoding="ascii") as file:
            file.write(f"Include {self.cluster.folder}/cluster.conf\n")
        for name in ("gres.conf", "cgroup.conf"):
            os.symlink(os.path.join(self.cluster.folder, name), os.path.join(self.folder, name))
        with open(os.path.join(self.folder, "mpi.conf"), "w", encoding="ascii") as file:
            file.write(f"PMIxCliTmpDirBase={self.folder}/pmix\n")  # its files have the same names on each node
        os.mkdir(os.path.join(self.folder, "pmix"), 0o755)

    def spawn(self, name, *argv):
        with open(os.path.join(self.folder, f"{name}.out"), "ab") as log:
            return subprocess.Popen(argv, env=self.environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                    cwd=self.folder, start_new_session=True)

    def tail(self, name, size=3000):
        """The end of what one of its programs printed."""
        with contextlib.suppress(OSError), open(os.path.join(self.folder, f"{name}.out"), "rb") as log:
            return log.read()[-size:].decode("utf-8", "replace")
        return ""

    def check_alive(self, process, name):
        if process.poll() is not None:
            raise Trouble(f"{name} of {self.name} ended with {process.returncode}:\n{self.tail(name)}")
        return True

    def end(self):
        if self.process:
            self.process.kill()  # also ends a stopped one
            self.process.wait()
        self.port.close()


class Node(Host):
    """One slurmd, its slurmstepds and what they run."""

    def start(self):
        self.process = self.spawn("slurmd", *self.cluster.without_profile, "slurmd", "-D", "-N", self.name)

    def pids(self):
        """Of everything that runs on the node: what has its configuration or Slurm's name of it in its environment, and
        the children of these."""
        conf, name = f"SLURM_CONF={self.conf}".encode(), f"SLURMD_NODENAME={self.name}".encode()
        common = f"SLURM_CONF={self.cluster.folder}/".encode()
        seen = list(processes())
        found = {pid for pid, _, environment in seen
                 if conf in environment or (name in environment and any(one.startswith(common) for one in environment))}
        grown = True
        while grown:
            more = {pid for pid, parent, _ in seen if parent in found} - found
            grown, found = bool(more), found | more
        return found

    def kill(self):
        """The node's power fails: all of its processes at once, and none is left."""
        def gone():
            found = self.pids()
            for number in (signal.SIGSTOP, signal.SIGKILL):  # stopped first, so that none sees another one die
                for pid in found:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, number)
            if self.process:
                self.process.poll()
            return not found
        wait_for(f"the processes of {self.name} to end", gone, 30)


def without_profile(empty):
    """What to write before a command so that it, and what it starts, finds the user's shell profile empty. Slurm makes a job's
    environment with a login shell (--export=NONE). A profile may do anything in it: one that takes a lock for a moment
    keeps it for good when a test kills the node just then, and every later job waits. Nothing where mounting is not
    allowed; then the profile runs."""
    home = pwd.getpwuid(os.getuid()).pw_dir
    profiles = [path for path in (os.path.join(home, name) for name in (".bash_profile", ".bash_login", ".profile", ".bashrc"))
                if os.path.isfile(path)]
    mounts = "".join(f"mount --bind {shlex.quote(empty)} {shlex.quote(path)} && " for path in profiles)
    words = ["unshare", "--mount", "--propagation=private", "sh", "-c", mounts + 'exec "$@"', "sh"]
    tried = subprocess.run([*words, "true"], capture_output=True, check=False)
    return words if profiles and tried.returncode == 0 else []


class Cluster:
    def __init__(self, folder, nodes=("n1", "n2", "n3"), cpus=4, memory=4096, slurmd_timeout=6, kill_wait=2,
                 min_job_age=300):
        self.folder = os.path.abspath(folder)
        self.head = Host(self, "controller")
        self.nodes = {name: Node(self, name) for name in nodes}
        self.munged = None
        self.without_profile = []
        self.conf, self.environment = self.head.conf, self.head.environment
        self.values = {"cpus": cpus, "memory": memory, "slurmd_timeout": slurmd_timeout, "kill_wait": kill_wait,
                       "min_job_age": min_job_age}

    # --- processes -----------------------------------------------------------------------------
    def write_files(self):
        os.makedirs(self.folder, exist_ok=True)
        os.chmod(self.folder, 0o755)
        os.mkdir(os.path.join(self.folder, "state"), 0o755)
        devices = []
        for i in range(4):  # must be character devices; Slurm hands out the numbers in their names and never opens them
            devices.append(os.path.join(self.folder, f"device{i}"))
            os.symlink("/dev/null", devices[-1])
        host = socket.gethostname().split(".")[0]
        nodes = "\n".join(f"NodeName={node.name} NodeHostname={host} NodeAddr=127.0.0.1 Port={node.port.getsockname()[1]}"
                          for node in self.nodes.values())
        with open(os.path.join(self.folder, "cluster.conf"), "w", encoding="ascii") as file:
            file.write(CONF.format(name="driftgate", host=host, nodes=nodes,
                                   ctld_port=self.head.port.getsockname()[1], user=pwd.getpwuid(os.getuid()).pw_name,
                                   folder=self.folder, **self.values))
        with open(os.path.join(self.folder, "gres.conf"), "w", encoding="ascii") as file:
            file.write("".join(f"NodeName={name} Name=gpu File={device}\n" for name in self.nodes for device in devices))
        with open(os.path.join(self.folder, "cgroup.conf"), "w", encoding="ascii") as file:
            file.write("CgroupPlugin=cgroup/v1\n")
        with open(os.open(os.path.join(self.folder, "munge.key"), os.O_WRONLY | os.O_CREAT, 0o400), "wb") as key:
            key.write(os.urandom(128))
        empty = os.path.join(self.folder, "profile")
        open(empty, "wb").close()
        self.without_profile = without_profile(empty)
        for host in (self.head, *self.nodes.values()):
            host.write()

    def start_munged(self):
        path = lambda name: os.path.join(self.folder, name)
        self.munged = self.head.spawn("munged", "munged", "--foreground", "--force", "--num-threads=2",
                                      f"--key-file={path('munge.key')}", f"--socket={path('munge.socket')}",
                                      f"--pid-file={path('munged.pid')}", f"--seed-file={path('munged.seed')}")
        wait_for("munged's socket",
                 lambda: self.head.check_alive(self.munged, "munged") and os.path.exists(path("munge.socket")), 30)

    def start_controller(self, *flags):
        self.head.process = self.head.spawn("slurmctld", "slurmctld", "-D", *flags)
        wait_for("slurmctld to answer", lambda: self.head.check_alive(self.head.process, "slurmctld")
                 and self.run("scontrol", "ping", check=False)[0] == 0, 60)

    def kill_controller(self):
        self.head.process.kill()
        self.head.process.wait()

    def end_controller(self):
        self.head.process.terminate()
        self.head.process.wait(60)

    def stop_controller(self):
        """The controller answers nobody until `continue_controller`, as one whose network is away."""
        self.head.process.send_signal(signal.SIGSTOP)

    def continue_controller(self):
        self.head.process.send_signal(signal.SIGCONT)

    def __enter__(self):
        try:
            self.write_files()
            self.start_munged()
            self.start_controller("-c")
            for node in self.nodes.values():
                node.start()
            self.wait_idle()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for node in self.nodes.values():
            with contextlib.suppress(Trouble):
                node.kill()
            node.end()
        self.head.end()
        if self.munged:
            self.munged.kill()
            self.munged.wait()

    # --- commands ------------------------------------------------------------------------------
    def run(self, *argv, check=True, seconds=60, stdin=None):
        """Runs one of Slurm's commands against this cluster: its exit status and what it printed."""
        done = subprocess.run(argv, env=self.environment, capture_output=True, text=True, check=False, timeout=seconds,
                              input=stdin, cwd=self.folder)
        if check and done.returncode != 0:
            raise Trouble(f"{' '.join(argv)}: {done.returncode}\n{done.stdout}{done.stderr}")
        return done.returncode, done.stdout if done.returncode == 0 else done.stdout + done.stderr

    def node_states(self):
        """Of each node what sinfo says: "idle", "mixed", "allocated", "down*", "drained", …"""
        lines = self.run("sinfo", "--noheader", "--Node", "--format=%N %T")[1].splitlines()
        return dict(line.split() for line in lines)

    def wait_node(self, name, *states, seconds=None):
        def there():
            self_state = self.node_states().get(name, "")
            return self_state if self_state in states else None
        return wait_for(f"{name} to be {' or '.join(states)}", there, seconds)

    def wait_idle(self):
        for name, node in self.nodes.items():
            wait_for(f"{name} to be idle",
                     lambda: node.check_alive(node.process, "slurmd") and self.node_states().get(name) == "idle", 60)

    def kill_node(self, name):
        """Returns at once; the controller notices after its SlurmdTimeout, or sooner by `declare_down`."""
        self.nodes[name].kill()

    def declare_down(self, name, reason="its power failed"):
        self.run("scontrol", "update", f"NodeName={name}", "State=DOWN", f"Reason={reason}")

    def start_node(self, name):
        self.nodes[name].start()
        if self.node_states()[name].rstrip("*") in ("down", "drained", "draining"):
            self.undrain(name)
        self.wait_node(name, "idle", "mixed", "allocated", "draining", "drained")

    def drain(self, name, reason="a test"):
        self.run("scontrol", "update", f"NodeName={name}", "State=DRAIN", f"Reason={reason}")

    def undrain(self, name):
        """Also of a node that has come back by itself, which Slurm refuses to resume."""
        self.run("scontrol", "update", f"NodeName={name}", "State=RESUME", check=False)

    def submit(self, *options, script):
        """A batch job from this script; its id."""
        return self.run("sbatch", "--parsable", *options, stdin=script)[1].split(";")[0].strip()

    def preempt(self, seconds=2):
        """An urgent job that takes every node whole, and so every other job's place; its id."""
        return self.submit("--partition=urgent", "--exclusive", f"--nodes={len(self.nodes)}", "--job-name=urgent",
                           "--output=/dev/null", script=f"#!/bin/sh\nexec sleep {seconds}\n")

    def cancel(self, *arguments):
        self.run("scancel", *arguments)

    def jobs(self):
        """The jobs that squeue lists, newest last: id, name, state, reason, nodes, comment, restarts."""
        layout = "%i|%j|%T|%r|%N|%k"
        jobs = []
        for line in self.run("squeue", "--noheader", "--states=all", f"--format={layout}")[1].splitlines():
            jobs.append(dict(zip(("id", "name", "state", "reason", "nodes", "comment"), line.split("|", 5))))
        return sorted(jobs, key=lambda job: int(job["id"]))

    def unfinished(self):
        """Jobs that wait or run, those of this file's own aside."""
        ended = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "PREEMPTED", "OUT_OF_MEMORY", "BOOT_FAIL",
                 "DEADLINE")
        return [job for job in self.jobs() if job["state"] not in ended and job["name"] != "urgent"]

    def start_now(self, job):
        """A job that was requeued waits two minutes (BeginTime); this makes it two seconds once it is pending. Not none:
        slurmd refuses a start in the same second as the end before, as one that was taken back."""
        def pending():
            state = [seen for seen in self.jobs() if seen["id"] == job and seen["state"] == "PENDING"]
            return state and self.run("scontrol", "update", f"JobId={job}", "StartTime=now+2", check=False)[0] == 0
        wait_for(f"job {job} to be pending", pending, 60)

    def completions(self):
        """The job completion file's records, one for each time that a job ended, a requeued one's runs among them."""
        with contextlib.suppress(FileNotFoundError), open(os.path.join(self.folder, "completed.txt"), encoding="utf-8") as file:
            return [dict(re.findall(r"(\w+)=(\S*)", line)) for line in file]
        return []

    def journal(self):
        """What the daemons of the cluster logged last, for a failed test."""
        return "".join([f"--- slurmctld\n{self.head.tail('slurmctld')}\n",
                        *(f"--- {name}\n{node.tail('slurmd')}\n" for name, node in self.nodes.items())])


def main(folder, *flags):
    why = lacking()
    if why:
        print(f"no Slurm cluster: {why}", file=sys.stderr)
        return 69  # EX_UNAVAILABLE
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with Cluster(folder) as cluster:
        print(cluster.conf, flush=True)
        signal.pause() if "--stay" in flags else sys.stdin.read()
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
