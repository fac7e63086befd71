"""Pure: from two versions of manifests to what the change does to what runs."""
