"""What objects mean: a Snapshot in, a Health out. Pure; nothing here reads a file, a socket or a clock."""

from rayllm_ctl.health.diagnose import diagnose, diagnose_cluster
from rayllm_ctl.health.diagnosejob import diagnose_job

__all__ = ["diagnose", "diagnose_cluster", "diagnose_job"]
