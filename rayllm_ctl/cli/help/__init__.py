"""Help pages: a short one with the options that are used most, and one with all options in groups."""
