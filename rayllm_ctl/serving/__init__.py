"""The code in the pods. It imports nothing of the rest of rayllm_ctl, and nothing of the rest imports it."""

import os

from rayllm_ctl.serving.shipped import ingress_code

__path__[:0] = ingress_code(os.environ)
