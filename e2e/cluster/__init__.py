"""Kubernetes on one Debian machine: built from Go modules, run as plain processes, gone after `down`.

`python -m e2e.cluster up | down | status | kubeconfig | logs`; docs/contributing/local-cluster.md tells how it is made.
"""
