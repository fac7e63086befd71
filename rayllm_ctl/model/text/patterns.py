"""Shapes of words that users write."""

from __future__ import annotations

import re


class Pattern:
    """A regular expression that is compiled when it is first used: a spec uses few of them."""

    def __init__(self, expression: str) -> None:
        self.expression = expression

    def fullmatch(self, text: str) -> re.Match[str] | None:
        return re.fullmatch(self.expression, text)

    def search(self, text: str) -> re.Match[str] | None:
        return re.search(self.expression, text)


MODEL_ID = Pattern(r"[A-Za-z0-9][A-Za-z0-9._-]{0,95}(/[A-Za-z0-9_][A-Za-z0-9._-]{0,95})?")
"""A hub name, with or without its owner."""

REVISION = Pattern(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,254}")
VERSION = Pattern(r"\d{1,4}(\.\d{1,4}){1,3}(rc\d{1,4})?(\.(post|dev)\d{1,4})*(\+[A-Za-z0-9.]{1,32})?")
"""A release as PyPI names it: vLLM has some of four numbers (0.10.1.1), and builds with a local part (+cpu)."""

QUANTIZATION = Pattern(r"[a-z][a-z0-9_-]{0,62}")
ENV_NAME = Pattern(r"[A-Za-z_][A-Za-z0-9_]{0,254}")

UNSENDABLE = Pattern("[\0\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
"""Characters that no value of a pod's field may have: server-side apply reads JSON as YAML, which refuses them raw
(seen with Kubernetes 1.36: "control characters are not allowed") or folds into a space (U+0085); NUL ends a string."""

_COMPONENT = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
IMAGE = Pattern(
    r"(?:[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?(?::\d{1,5})?/)?"
    rf"{_COMPONENT}(?:/{_COMPONENT})*(?::\w[\w.-]{{0,127}})?(?:@sha(?:256|512):[0-9a-f]{{64,128}})?"
)
"""An image reference by the grammar of github.com/distribution/reference: registry, path, tag, digest."""

DNS_LABEL = Pattern(r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?")
DNS_SUBDOMAIN = Pattern(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*")
DATA_KEY = Pattern(r"[-._A-Za-z0-9]{1,253}")
LABEL_VALUE = Pattern(r"(?:[A-Za-z0-9](?:[-._A-Za-z0-9]{0,61}[A-Za-z0-9])?)?")

RAY_RESOURCE = Pattern(r"[A-Za-z0-9](?:[-._:/A-Za-z0-9]{0,61}[A-Za-z0-9])?")
"""A custom resource of Ray, as part of a shell's command line."""

REDIS_ADDRESS = Pattern(r"(?:rediss?://)?[A-Za-z0-9](?:[-.A-Za-z0-9]*[A-Za-z0-9])?:\d{1,5}")
"""Host and port, with or without a scheme; no credentials, no database (Ray uses its own keys)."""

REDIS_URL = Pattern(r"rediss?://[A-Za-z0-9](?:[-.A-Za-z0-9]*[A-Za-z0-9])?(?::\d{1,5})?(?:/\d{1,5})?")
"""Scheme, host, port and database; no credentials."""

ADAPTER_STORE = Pattern(r"(s3|gs|abfss|azure)://[A-Za-z0-9][^\s?#\\]*")
"""A folder in an object store from which Ray Serve LLM 2.60 copies files (common/callbacks/cloud_downloader.py)."""

ENDPOINT = Pattern(r"https?://[A-Za-z0-9](?:[-.A-Za-z0-9]*[A-Za-z0-9])?(?::\d{1,5})?/?")
"""The address of an S3 service; no credentials, no path."""

REGION = Pattern(r"[A-Za-z0-9](?:[-A-Za-z0-9]{0,61}[A-Za-z0-9])?")

_SEGMENT = r"\.{0,2}[A-Za-z0-9_=+,~-][A-Za-z0-9._=+,~-]*"
_BUCKET = r"[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]"
BUCKET_FOLDER = Pattern(rf"(?:s3|gs)://{_BUCKET}(?:/{_SEGMENT})*/?")
"""A folder of an S3 or GCS bucket, or its root; no glob, no `..`."""

WEB_FOLDER = Pattern(
    r"https://[A-Za-z0-9](?:[-.A-Za-z0-9]*[A-Za-z0-9])?(?::\d{1,5})?"
    rf"(?:/{_SEGMENT.replace('~', '%~')})*/?"
)
"""The address of a folder on a web server; no credentials, no query."""
