"""Everything a project spent: explorations, failures and the run that is shown in the end."""
