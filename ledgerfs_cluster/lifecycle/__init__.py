"""Apply policies to all topics of a cluster over time: decide what is due, and do it without losing a message.

ledgerfs offloads, and deletes only orphans (`acting/`); brokers delete ledgers that topics list (`brokers/`). Begin with
`planning/planning.py`: `plan_of` makes a plan from a snapshot, and `service/service.py` carries it out.
"""
