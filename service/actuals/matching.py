"""Which quotes a body of actuals answers: named by the caller, by the job's own names, or by a comment in its document."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from sqlalchemy import Connection

from service.catalog import devices
from service.kit import problems
from service.quotes import repository as quotes

from .intake import read_document, refused
from .measurement import Attempt, Ignored, Reading
from .quoted import Quoted, quoted
from .schemas import Actuals, ReferencedActuals

MOST_READINGS = 16  # of one document, each with another number of devices
MOST_TOLD = 5  # jobs without a quote that a refusal names


@dataclass(frozen=True, slots=True)
class Target:
    """A quote, what of it measurements are set beside, and its part of the document (None: the body itself says it)."""

    quote: quotes.Stored
    run: Quoted
    reading: Reading | None


def quoted_run(quote: quotes.Stored) -> Quoted:
    """The quote's numbers, with the memory that its device's driver reports."""
    document = quote.estimate()
    name = ((document.get("spec") or {}).get("hardware") or {}).get("device")
    found = devices.find(name) if isinstance(name, str) else None
    return quoted(document, None if found is None else float(found.device.memory_bytes))


def of_quote(reading: Reading, actuals: Actuals, quote: quotes.Stored) -> Reading:
    """The part of a document that is the quote's job."""
    named = tuple(attempt for attempt in reading.attempts if quote.id in attempt.quote_ids)
    if named and actuals.job_id is None:
        return replace(reading, attempts=named)
    external = (quote.estimate().get("spec") or {}).get("external_ref")
    return choose(reading, wanted_names(actuals, external), actuals.job_id is not None)


def targets(connection: Connection, team_id: str, actuals: ReferencedActuals) -> tuple[list[Target], list[Ignored]]:
    """The quotes that a request answers, each with its part of the document."""
    if actuals.external_ref is not None:
        reference = (actuals.external_ref.system, actuals.external_ref.id)
        found = quotes.newest_by_references(connection, team_id, [reference]).get(reference)
        if found is None:
            raise problems.NotFound("No quote has this external_ref")
        run = quoted_run(found)
        reading = read_document(actuals, run.device_count) if actuals.format else None
        return [Target(found, run, None if reading is None else of_quote(reading, actuals, found))], []
    if actuals.format is None:
        raise refused("/external_ref", "needed: which job it was (or send the tool's document, where it names the job)")
    reading = read_document(actuals)
    if reading.attempts and not any(references(attempt) or attempt.quote_ids for attempt in reading.attempts):
        raise refused("/external_ref", "needed: the document does not name its job")
    wanted = [a for a in reading.attempts if actuals.job_id is None or actuals.job_id in (a.job_id, *a.job_names)]
    quote_of = _quotes_of(connection, team_id, wanted)
    unquoted: list[Ignored] = []
    by_quote: dict[str, tuple[quotes.Stored, list[Attempt]]] = {}
    for attempt in wanted:
        found = quote_of(attempt)
        if found is None:
            unquoted.append(Ignored(pointer="", detail=f"{_named(attempt)} has no quote"))
        else:
            by_quote.setdefault(found.id, (found, []))[1].append(attempt)
    if not by_quote and reading.attempts:
        told = "; ".join(entry.detail for entry in unquoted[:MOST_TOLD])
        raise problems.NotFound(f"No quote was made for a job of this document: {told}" if told else "The document has no such job")
    # Where the document lacks an attempt's devices it is read again with the quote's; once for each count.
    as_read = _by_try(reading.attempts)
    again: dict[int | None, dict[tuple[str | None, int | None], list[Attempt]]] = {}
    found_targets: list[Target] = []
    for quote, attempts in by_quote.values():
        run = quoted_run(quote)
        tries = dict.fromkeys((attempt.job_id, attempt.attempt) for attempt in attempts)
        by_try = as_read
        if any(attempt.device_count is None for key in tries for attempt in as_read[key]):
            if run.device_count not in again:
                if len(again) >= MOST_READINGS:
                    raise refused(
                        "/device_count",
                        f"needed: the document does not say how many devices its jobs had, and their quotes say more than {MOST_READINGS} "
                        "different numbers (or send fewer jobs at a time)",
                    )
                again[run.device_count] = _by_try(read_document(actuals, run.device_count).attempts)
            by_try = again[run.device_count]
        kept = tuple(attempt for key in tries for attempt in by_try[key])
        found_targets.append(Target(quote, run, Reading(attempts=kept)))
    return found_targets, [*reading.ignored, *unquoted]


def _named(attempt: Attempt) -> str:
    """A job as its document names it, and by what its quote was looked for first."""
    names = [f"external_ref {system}:{name}" for system, name in references(attempt)[:1]]
    names += [f"quote {quote_id}" for quote_id in attempt.quote_ids]
    return f"job {attempt.job_id or '?'}" + (f" ({', '.join(names)})" if names else "")


def _quotes_of(connection: Connection, team_id: str, attempts: Sequence[Attempt]) -> Callable[[Attempt], quotes.Stored | None]:
    """Finds the quote of an attempt: one that its job names, else the newest under one of its job's names."""
    named = quotes.get_many(connection, team_id, (quote_id for attempt in attempts for quote_id in attempt.quote_ids))
    known = quotes.newest_by_references(connection, team_id, (r for attempt in attempts for r in references(attempt)))

    def find(attempt: Attempt) -> quotes.Stored | None:
        by_id = (named[quote_id] for quote_id in attempt.quote_ids if quote_id in named)
        by_name = (known[reference] for reference in references(attempt) if reference in known)
        return next(by_id, None) or next(by_name, None)

    return find


def _by_try(attempts: Sequence[Attempt]) -> dict[tuple[str | None, int | None], list[Attempt]]:
    """Attempts by job and number."""
    found: dict[tuple[str | None, int | None], list[Attempt]] = {}
    for attempt in attempts:
        found.setdefault((attempt.job_id, attempt.attempt), []).append(attempt)
    return found


def choose(reading: Reading, wanted: Sequence[str], stated: bool) -> Reading:
    """The attempts of one job. ``wanted`` are names of it; ``stated`` says that the caller gave one."""
    jobs = {attempt.job_id for attempt in reading.attempts}
    if jobs <= {None} or (len(jobs) == 1 and not stated):
        return reading
    matching = tuple(a for a in reading.attempts if set(wanted) & {a.job_id, *a.job_names})
    if matching:
        others = len(reading.attempts) - len(matching)
        left = Ignored(
            pointer="", detail=f"{others} attempts of other jobs than the quote's; post the document to /v1/actuals for all of them"
        )
        return replace(reading, attempts=matching, ignored=(*reading.ignored, *((left,) if others else ())))
    if stated and reading.attempts:
        raise refused("/job_id", "the document holds no such job that has ended")
    if not reading.attempts:
        return reading
    raise refused("/job_id", f"the document holds {len(jobs)} jobs and the quote names none of them: say which")


def references(attempt: Attempt) -> list[tuple[str, str]]:
    """Names under which the job may have been quoted: with its cluster first, a bare number is not unique."""
    names = [name for name in (attempt.job_id, *attempt.job_names) if name]
    return [(attempt.source, name) for name in sorted(names, key=lambda name: "/" not in name)]


def wanted_names(body: Actuals, external: Mapping[str, str] | None) -> list[str]:
    """Names of the job that a document may use: the caller's, or the quote's own reference with and without its cluster."""
    if body.job_id is not None:
        return [body.job_id]
    if external is None:
        return []
    return [external["id"], external["id"].rpartition("/")[2]]
