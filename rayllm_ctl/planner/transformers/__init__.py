"""Plans of models on the Transformers engine: whole layers on the GPUs of one pod, spread by `device_map: auto`."""
