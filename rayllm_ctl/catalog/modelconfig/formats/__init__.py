"""quantization_config of each format."""
