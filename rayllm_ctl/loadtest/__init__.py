"""Sends requests to an OpenAI-compatible server and measures the answers.

It imports nothing of the rest, so that the same files run on the user's machine and in a Job in the cluster.
"""
