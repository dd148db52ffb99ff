"""What a team's own measurements have taught: versioned factors, written once and looked up for every quote."""
