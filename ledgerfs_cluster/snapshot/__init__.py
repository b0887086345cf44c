"""All metadata of a cluster or a topic at one time, as columns; dumps of them in files.

Begin with `survey.py` (the columns) and `surveying.py` (reading them from ZooKeeper or a dump).
"""
