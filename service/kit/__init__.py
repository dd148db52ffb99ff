"""What every room uses: database, problems, security, idempotency, paging, telemetry."""
