"""From a model's name to a healthy, autoscaling, OpenAI-compatible endpoint on Kubernetes."""

__version__ = "0.1.0"
