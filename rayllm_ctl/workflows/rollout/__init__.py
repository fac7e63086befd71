"""Changes to services: deploy, diff, scale, restart, rollback, delete."""
