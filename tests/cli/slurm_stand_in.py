"""What SLURM does for a job, on this machine: sbatch, srun and scontrol as small programs, and the variables that they set.

`sbatch` reads the #SBATCH lines of the script, and stays until the job has ended. A SIGUSR1 to it stands for "the time is
nearly over": it signals the shell, as `--signal=B:…` asks. A job that `scontrol requeue` names is run again when it has ended.
`srun` passes signals on to its tasks alone, and not to what these have started, as SLURM does where it tracks processes by
cgroups.
"""

import sys

SBATCH = """
import os, re, signal, subprocess, sys
given = dict(line.split("=", 1) for line in sys.argv[1:] if line.startswith("--"))
script, *arguments = [one for one in sys.argv[1:] if not one.startswith("--")]
directives = dict(re.findall(r"^#SBATCH (--[a-z-]+)=(\\S+)", open(script).read(), re.MULTILINE)) | given
nodes = int(directives["--nodes"])
assert directives["--signal"].startswith("B:USR1@"), "the shell is told"
environment = dict(
    os.environ,
    SLURM_JOB_ID="4711", SLURM_JOB_NODELIST=f"node[1-{nodes}]", SLURM_JOB_NUM_NODES=str(nodes), SLURM_NTASKS=str(nodes),
    SLURM_NTASKS_PER_NODE=directives["--ntasks-per-node"], SLURM_CPUS_PER_TASK=directives["--cpus-per-task"],
    SLURM_GPUS_ON_NODE=directives["--gpus-per-node"], SLURM_PROCID="0", SLURM_SUBMIT_DIR=os.getcwd(),
)
restarts, code = 0, 0
signal.signal(signal.SIGUSR1, lambda *_: job.send_signal(signal.SIGUSR1))
while True:
    if restarts:
        environment["SLURM_RESTART_COUNT"] = str(restarts)
    job = subprocess.Popen(["bash", script, *arguments], env=environment)
    code = job.wait(300)
    if not os.path.exists("requeued") or open("requeued").read().split().count("4711") == restarts:
        sys.exit(code)
    restarts += 1
"""
SRUN = """
import os, signal, subprocess, sys, time
command = sys.argv[1:]
while command[0].startswith("--"):
    command.pop(0)
tasks = [
    subprocess.Popen(command, env=dict(os.environ, SLURM_PROCID=str(rank), SLURM_NODEID=str(rank), SLURM_LOCALID="0"))
    for rank in range(int(os.environ["SLURM_NTASKS"]))
]
for one in (signal.SIGUSR1, signal.SIGTERM):
    signal.signal(one, lambda number, _: [task.send_signal(number) for task in tasks])
codes = [task.wait(300) for task in tasks]
sys.exit(max(abs(code) for code in codes))
"""
SCONTROL = """
import sys
if sys.argv[1:3] == ["show", "hostnames"]:
    assert sys.argv[3] == "node[1-2]"
    print("127.0.0.1\\nnode2")
else:
    assert sys.argv[1] == "requeue"
    open("requeued", "a").write(sys.argv[2] + "\\n")
"""


def install(folder):
    """Put the programs into a folder, which has to come first on PATH."""
    folder.mkdir()
    for name, source in {"sbatch": SBATCH, "srun": SRUN, "scontrol": SCONTROL}.items():
        (folder / name).write_text(f"#!{sys.executable}{source}")
        (folder / name).chmod(0o755)
