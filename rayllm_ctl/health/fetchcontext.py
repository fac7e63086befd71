"""A download without a service as the rules see it: its Job."""

from __future__ import annotations

from rayllm_ctl.health.context import ServiceContext


class FetchContext(ServiceContext):
    """The download of one model in a Snapshot."""

    of_fetch = True
    deploy = "rayllm-ctl fetch …"
