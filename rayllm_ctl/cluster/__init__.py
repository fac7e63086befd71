"""The only package that talks to the Kubernetes API."""

from rayllm_ctl.cluster.api.client import Cluster
from rayllm_ctl.cluster.api.connect import connect

__all__ = ["Cluster", "connect"]
