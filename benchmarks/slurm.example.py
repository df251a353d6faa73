"""Workers as SLURM jobs: change a copy to your queue, and run it where `sbatch` works.

It prints the value of CARRY_EXECUTOR, and asks for workers while there are jobs. See CAMPAIGNS.md.
"""

from dask_jobqueue import SLURMCluster

cluster = SLURMCluster(
    queue="gpu",
    cores=1,  # threads of a worker; carry refuses more than one
    processes=1,
    memory="16GB",
    walltime="04:00:00",  # an unfinished job continues in the next worker
    job_extra_directives=["--gres=gpu:1"],
    job_script_prologue=["cd $SLURM_SUBMIT_DIR", "source .venv/bin/activate"],
    worker_extra_args=["--preload", "carry.jobs.pool"],
)
cluster.adapt(maximum_jobs=8)  # each is one worker
input(f"CARRY_EXECUTOR={cluster.scheduler_address.replace('tcp', 'dask')} (Enter ends it)")
