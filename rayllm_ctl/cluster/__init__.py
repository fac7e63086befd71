"""The only package that talks to the Kubernetes API."""

from rayllm_ctl.cluster.client import Cluster
from rayllm_ctl.cluster.config import connect

__all__ = ["Cluster", "connect"]
