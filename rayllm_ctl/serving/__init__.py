"""What runs in the pods. It imports nothing of the rest of rayllm_ctl, and nothing of the rest imports it."""
