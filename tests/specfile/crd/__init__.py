"""Tests of the CustomResourceDefinitions."""
