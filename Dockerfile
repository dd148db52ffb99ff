# syntax=docker/dockerfile:1
FROM python:3.13-slim AS build
WORKDIR /build
COPY requirements.lock .
RUN python -m venv /venv && /venv/bin/pip install --no-cache-dir --require-hashes -r requirements.lock
COPY service /build/service
COPY migrations /build/migrations
# Nothing can be written where the service runs, so that bytecode not made here would be made again at every start.
RUN /venv/bin/python -m compileall -q --invalidation-mode unchecked-hash -s /build -p /app service migrations

FROM python:3.13-slim
RUN useradd --system --uid 10001 --no-create-home runquote \
 && install -d -o runquote -g runquote /data
COPY --from=build /venv /venv
COPY LICENSE /app/
COPY --from=build /build/service /app/service
COPY --from=build /build/migrations /app/migrations
ENV PATH=/venv/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=/app \
    RUNQUOTE_HOST=0.0.0.0 RUNQUOTE_PORT=8000
# Without RUNQUOTE_DATABASE_URL the database is a SQLite file here; mount a volume to keep it.
WORKDIR /data
VOLUME /data
USER runquote
EXPOSE 8000
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=15s --timeout=5s --start-period=30s CMD \
  ["python", "-c", "import os, urllib.request as r; r.urlopen('http://127.0.0.1:' + os.environ['RUNQUOTE_PORT'] + '/readyz', timeout=4)"]
# Workers: RUNQUOTE_WORKERS (more than one needs PostgreSQL).
ENTRYPOINT ["python", "-m", "service"]
CMD ["serve"]
