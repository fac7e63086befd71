"""quantization_config of the formats that describe single modules or several ways at once."""
