"""A folder of a web server. Nothing lists it, so its marker or the names that models have tell what is in it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from urllib.parse import quote, urlsplit, urlunsplit

from rayllm_ctl.serving.storage import marker
from rayllm_ctl.serving.storage.failures import StorageError, shown
from rayllm_ctl.serving.storage.sources import http
from rayllm_ctl.serving.storage.sources.remote import Listing, Remote
from rayllm_ctl.serving.storage.sources.selection import check_name, select

CONFIG_FILE = "config.json"
INDEX = "model.safetensors.index.json"
_WHOLE = "model.safetensors"
_OTHERS = (
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "tokenizer.model",
    "tokenizer.model.v3",
    "tekken.json",
    "params.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "vocab.txt",
    "merges.txt",
    "spiece.model",
    "sentencepiece.bpe.model",
    "chat_template.jinja",
    "chat_template.json",
    "preprocessor_config.json",
    "processor_config.json",
    "image_processor_config.json",
    "video_preprocessor_config.json",
    "quantize_config.json",
    "quant_config.json",
    "hf_quant_config.json",
    "modules.json",
    "sentence_bert_config.json",
    "config_sentence_transformers.json",
    "1_Pooling/config.json",
)
_MAX_JSON_BYTES = 64 << 20
_HINT = "use a URL that can be read without credentials, or one with a signature, in spec.storage.model.mirror.from"


class WebFolder:
    """The folder below a URL, whose query is part of the URL of every file."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._web = http.WebClient()
        self._etags: dict[str, str] = {}

    def list(self) -> Listing:
        """The files of the marker, with checksums, or those of known names that there are."""
        described = marker.parse_marker(self._read(marker.MARKER_NAME))
        if described is not None:
            return Listing(tuple(self._of_marker(described)))
        if self._find(CONFIG_FILE) is None:
            raise StorageError(
                "DownloadNotFound",
                f"{shown(self._file(CONFIG_FILE))} was not found",
                "set spec.storage.model.mirror.from to the folder that has config.json",
            )
        index = self._read(INDEX)
        weights = _indexed(index) if index is not None else [_WHOLE]
        found = [file for name in (CONFIG_FILE, *_OTHERS) if (file := self._find(name))]
        found += [self._required(name) for name in ([INDEX] if index is not None else [])]
        return select([*found, *(self._required(name) for name in weights)])

    def stream(self, file: Remote, start: int, stop: int) -> Iterator[bytes]:
        """Bytes of a file, of the same content as when it was listed, if the server has strong ETags."""
        url = self._file(file.name)
        headers = http.range_of(start, stop) if file.ranges else {}
        if etag := self._etags.get(file.name):
            headers["If-Match"] = etag
        with self._web.get(url, headers) as answer:
            http.check_status(answer, url, _HINT)
            yield from http.body(answer, start, stop, url)

    def _of_marker(self, described: marker.Marker) -> Iterator[Remote]:
        for name, entry in described.files.items():
            check_name(name)
            found = self._required(name)
            yield Remote(name, entry.bytes, f"sha256:{entry.sha256}", sha256=entry.sha256, ranges=found.ranges)

    def _required(self, name: str) -> Remote:
        found = self._find(name)
        if found is None:
            raise StorageError(
                "DownloadNotFound", f"{shown(self._file(name))} was not found", "upload it, or name another folder"
            )
        return found

    def _find(self, name: str) -> Remote | None:
        """What the headers tell of a file; None if there is none. A request of a signed URL can be a GET alone."""
        url = self._file(name)
        with self._web.get(url, http.range_of(0, 1)) as answer:
            if answer.status in (404, 410):
                return None
            if answer.status != 416:  # of an empty file
                http.check_status(answer, url, _HINT)
            size = 0 if answer.status == 416 else http.total_of(answer)
            etag, changed = answer.headers.get("ETag", ""), answer.headers.get("Last-Modified", "")
            ranges = answer.status == 206
        if size is None:
            raise StorageError(
                "DownloadFailed", f"the server does not tell the size of {shown(url)}", "use another server"
            )
        if etag.startswith('"'):
            self._etags[name] = etag
        return Remote(name, size, f"web:{etag or changed}:{size}", ranges=ranges)

    def _read(self, name: str) -> bytes | None:
        url = self._file(name)
        with self._web.get(url, {}) as answer:
            if answer.status in (404, 410):
                return None
            http.check_status(answer, url, _HINT)
            return http.whole(answer, _MAX_JSON_BYTES, url)

    def _file(self, name: str) -> str:
        parts = urlsplit(self._url)
        return urlunsplit(parts._replace(path=f"{parts.path.rstrip('/')}/{quote(name)}"))


def _indexed(index: bytes) -> Iterable[str]:
    """The files that an index names."""
    try:
        return sorted({str(name) for name in json.loads(index)["weight_map"].values()})
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise StorageError("DownloadCorrupt", f"{INDEX} is not valid", "upload the index again") from error
