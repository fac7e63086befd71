"""What HTTP libraries and hub clients write where the model's hub or bucket cannot be reached.

Texts as read in huggingface_hub 0.3x to 1.x, transformers 4 and 5, requests, httpx, botocore and hf-xet.
"""

from __future__ import annotations

import re

from rayllm_ctl.health.sentences.sentence import Sentence, sentence
from rayllm_ctl.model.text.hint import Hint

_MIRROR = Hint(
    "{deploy} --env HF_ENDPOINT=URL", "a mirror; or --model-path FOLDER with --volume: a copy in the cluster"
)
_AGAIN = Hint("{restart}", "when the hub answers again")

_HUB = (
    r"huggingface|\bhf\.co\b|hf-mirror|modelscope|xethub|\bCAS (?:service|client)|HfHub|/api/models/|/resolve/|"
    r"the Hub\b|\bs3[.:-]|amazonaws|botocore|storage\.googleapis|\bgs://|blob\.core\.windows|runai|\bbucket\b"
)
"""What shows that an exception, or the code that raised it, is about the model's hub or bucket."""


def _hub(pattern: str, *hints: Hint) -> Sentence:
    """A sentence of an HTTP library: of the hub's only if it, or the code that raised it, is about the hub."""
    return sentence("HubUnreachable", pattern, *hints, of_hub=True)


HUB_SENTENCES: tuple[Sentence, ...] = (
    sentence(
        "ModelNotFound",
        r"outgoing traffic has been disabled|OfflineModeIsEnabled|offline mode is enabled",
        Hint("{deploy} --env HF_HUB_OFFLINE=0", "the variable forbids the download"),
        Hint("{deploy} --volume KIND:SOURCE:PATH --model-path FOLDER", "a folder that the pods have"),
    ),
    _hub(
        r"Proxy ?Error|Cannot connect to proxy|Unable to connect to proxy|Tunnel connection failed|"
        r"\b407\b.{0,20}Proxy|proxy authentication required",
        Hint("{deploy} --env HTTPS_PROXY=http://HOST:PORT --env NO_PROXY=HOSTS", "the proxy that lets the pods out"),
        _MIRROR,
    ),
    _hub(
        r"CERTIFICATE_VERIFY_FAILED|certificate verify failed|SSLCertVerificationError|SSLError|SSL: |TLS handshake|"
        r"self[- ]signed certificate|unable to get local issuer certificate|invalid peer certificate",
        Hint(
            "{deploy} --volume configmap:NAME:/etc/ssl/company --env SSL_CERT_FILE=/etc/ssl/company/ca.crt "
            "--env REQUESTS_CA_BUNDLE=/etc/ssl/company/ca.crt",
            "the CA of the proxy",
        ),
        _MIRROR,
    ),
    _hub(
        r"\b429\b|Too ?Many ?Requests|rate.?limit|SlowDown|Please reduce your request rate",
        Hint("{deploy} --hf-token-secret NAME/KEY", "the hub's limits are higher for known users"),
        Hint("{restart}", "later; or --model-path FOLDER with --volume: one copy in the cluster for all replicas"),
    ),
    _hub(
        r"\b50[0234]\b (?:Server Error|Internal|Bad Gateway|Service|Gateway)|Bad Gateway|"
        r"Service (?:Temporarily )?Unavailable|Gateway Time-?out|Internal Server Error for url",
        _AGAIN,
        _MIRROR,
    ),
    _hub(
        r"Name or service not known|name resolution|No address associated with hostname|nodename nor servname|"
        r"NameResolutionError|Failed to resolve|getaddrinfo failed|dns error|no such host|"
        r"Max retries exceeded|Connect(?:ion)?(?:Error|Timeout)|ReadTimeout|timed out|"
        r"Connection (?:refused|reset|aborted)|Network is unreachable|No route to host|RemoteDisconnected|"
        r"Server disconnected|RemoteProtocolError|IncompleteRead|EndpointConnectionError|"
        r"Could not connect to the endpoint URL|error sending request|Errno 1(?:01|10|11|13)\b",
        Hint("{exec} -- wget -S --spider {address}", "whether the pods reach the hub"),
        Hint("{deploy} --env HTTPS_PROXY=http://HOST:PORT", "where only a proxy leads out"),
        _MIRROR,
    ),
    sentence(
        "HubUnreachable",
        r"We couldn't connect to '(?P<hub>[^']+)'|couldn't find (?:them|it) in the cached files|"
        r"error happened while trying to locate the files? on the Hub|"
        r"There was a specific connection error when(?!.*\b40[134]\b)|LocalEntryNotFound|"
        r"make sure your Internet connection is on",
        Hint("{exec} -- wget -S --spider {address}", "whether the pods reach the hub"),
        Hint("{deploy} --env HTTPS_PROXY=http://HOST:PORT", "where only a proxy leads out"),
        _MIRROR,
    ),
)
"""The first that applies counts. Those of HTTP clients name a host, or none."""

_HOST = re.compile(r"host='(?P<host>[^']+)'|(?P<url>https?://[^/\s'\"]+)", re.I)
_ABOUT_THE_HUB = re.compile(_HUB, re.I)
_CLIENT = re.compile(r"(?:httpx2?|httpcore2?|requests|urllib3|aiohttp|ssl)\.")
_ENGINE = re.compile(r"\b(?:vllm|transformers|ray/llm)/")


def hub_address(text: str) -> str:
    """The address of the hub that a text names; that of Hugging Face where it names none."""
    found = _HOST.search(text)
    return (found["url"] or f"https://{found['host']}") if found else "https://huggingface.co"


def is_about_the_hub(text: str, frames: str) -> bool:
    """Whether an exception is about the hub: by its text, or, where that names no host, by the code that raised it.

    An engine that starts asks nobody but the hub over HTTP.
    """
    if _ABOUT_THE_HUB.search(text) or _HOST.search(text):
        return _ABOUT_THE_HUB.search(text) is not None
    by_client = _CLIENT.match(text) is not None and _ENGINE.search(frames) is not None
    return by_client or _ABOUT_THE_HUB.search(frames) is not None
