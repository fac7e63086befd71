"""Settings: flags whose value may also come from an environment variable or the configuration file."""
