"""Load tests as text, plots and pages."""
