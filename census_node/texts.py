"""Every sentence that the census operator's commands say, in one place, so that another language can stand beside it."""

from __future__ import annotations

__all__ = ["LOADED", "POLICY", "READY", "RELINKED", "SHUT_DOWN", "STATUS"]

READY = "census node ready on {address}"
LOADING = "Loading the registry"
LOADED = """\
Loaded {linked} linked people of {rows} rows; {without_card} have no health card, {rejected} rows were left out as wrong.
Census release {release} is in force."""
STATUS = """\
Census node: {state}
  accounting      {accounting}, no belief about one person above {max_belief} (odds move by at most {param})
  answers         {answers}
  charged         {worst_charged} units; no belief can have passed {worst_belief}
  log             {log_size} entries
  policy          {policy_hash}"""
POLICY = """\
Policy {policy_hash}, signed by the census agency with key {key_id}
  accounting        {accounting}
  max belief        {max_belief} (odds move by at most {param}; {cap} units)
  scales            {scales}
  release tick      {release_tick_ms} ms
  forward delay     {forward_delay_ms} ms
  answer delay      {answer_delay_ms} ms
  quotes            stand for {quote_lifetime}, at most {open_quotes} open per researcher
  sample            at most {max_sample} people
  answers           wait {answer_retention} for their researcher"""
SHUT_DOWN = "The service is shut down. Answers charged before still go out."
RELINKING = "Changing the linkage key"
RELINKED = """\
The linkage key is changed: {people} people have new pseudonyms. Chain {linkage} is in force, {previous} was before.
Unless the health agency has this chain already: bring it {file}, out of band, and let it run
  tripartite health relink --home HOME --key-file FILE
Until both have changed, questions are refused and nothing is charged."""
RELEASE_HELP = "Name of the census release; by default the name in force."
REASON_LIMIT = "Say it in at most 4,096 characters; the log refers to longer documents."
REASON_HELP = "Why, for the log; auditors read it."
