"""Spec files as custom resources: CustomResourceDefinitions from the annotations that the reader follows."""
