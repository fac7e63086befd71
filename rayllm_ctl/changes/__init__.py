"""Pure: from two versions of manifests to the effects of the change on running pods."""
