"""One question, from criteria to sealed bits. Its order of steps is in `health_node.flow`.

fair_queue  places in the queue: each researcher's own, oldest first, researchers in rotation
marks       criteria to a sample of bits, and its price
questions   what open tickets are drawn from
forwarding  one sample to the census node, sealed anew for each attempt, and what its answers must say
"""
