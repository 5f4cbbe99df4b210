"""One client of a race: `python -m deploy.attacks.racer HOME`, a process of its own, told by its standard input.

in:  query ids, one line each, of tickets that are signed and not submitted, then an empty line; once ready, a line: go
out: "ready" once its connections stand; at the end one line of JSON, query id to "answered" or the code of the refusal
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

from broker_common.errors import BrokerError
from researcher_node.answers.store import AskedQuestion
from researcher_node.asking.session import Session
from researcher_node.assembly import ResearcherHome

_WAIT_SECONDS = 60.0
_PAUSE_SECONDS = 0.05


async def race(home: ResearcherHome, queries: list[str]) -> dict[str, str]:
    """Submit all these tickets at once when told to; what became of each."""
    answers = home.open_answers()
    try:
        async with home.session(answers) as session:
            await session.meet("health")
            await session.meet("census")
            sys.stdout.write("ready\n")
            sys.stdout.flush()
            await asyncio.to_thread(sys.stdin.readline)

            async def one(query: str) -> str:
                return await _submit(session, answers.get(query))

            ends = await asyncio.gather(*map(one, queries))
    finally:
        answers.close()
    return dict(zip(queries, ends, strict=True))


async def _submit(session: Session, asked: AskedQuestion) -> str:
    while True:
        try:
            await session.ask(asked, wait_seconds=_WAIT_SECONDS, on_stage=lambda _: None)
        except BrokerError as error:
            if error.code != "BUSY":
                return error.code
            # Nodes take so many questions at once; a racer does not give up.
            await asyncio.sleep(_PAUSE_SECONDS)
        else:
            return "answered"


def _main(arguments: list[str]) -> None:
    queries = []
    while query := sys.stdin.readline().strip():
        queries.append(query)
    sys.stdout.write(json.dumps(asyncio.run(race(ResearcherHome(Path(arguments[0])), queries))) + "\n")


if __name__ == "__main__":
    _main(sys.argv[1:])
