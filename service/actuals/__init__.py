"""What runs measured: read from the tools' own files, kept append-only, set beside the estimate."""
