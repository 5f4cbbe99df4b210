"""The policy lab: what a policy officer, a methodologist and a lawyer look at before an agency says yes.

No node needs it (`tripartite[lab]`), and nobody imports it. It asks the product's own `privacy` code for everything exact.

cli         `tripartite lab`                       standing    who may see what was computed, and the mark that says so
document/   one document, shown in every form      mechanisms/ the laws of central, local and shuffled noise
figures/    what the pages draw                    site/       `lab serve`
explain/    `lab explain`                          evaluate/   `lab evaluate`
survey/     the published survey evaluation        tables/     `lab table`
sensitivity/ `lab sensitivity`                     assessment/ `lab assessment`
arrays      what arrays of the lab hold
"""
