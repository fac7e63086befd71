"""Pure: sizes a service and says why."""
