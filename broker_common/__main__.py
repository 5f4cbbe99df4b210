"""`python -m broker_common` is `tripartite`; `tripartite up` starts its children this way."""

from broker_common.cli import main

main()
