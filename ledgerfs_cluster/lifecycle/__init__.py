"""All topics of a cluster over time: what policies want, what of it is due, and doing it so that no message is lost.

ledgerfs offloads, and deletes only what nothing names (`acting/`); brokers delete what topics list (`brokers/`). `planning/planning.py` is
where to begin: `plan_of` makes a plan of a survey, and `service/service.py` carries it out.
"""
