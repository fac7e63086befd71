"""Buckets of S3 and Google Cloud Storage, for batch jobs and for the downloads of models."""
