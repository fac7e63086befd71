"""Changes of services: deploy, diff, scale, restart, rollback, delete."""
