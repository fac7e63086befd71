"""Commands: flags in, one workflow, a printed result. No logic lives here."""
