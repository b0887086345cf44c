"""All metadata of a cluster at one time, or of one topic, as columns; dumps of it in files.

Begin with `survey.py` (the columns) and `surveying.py` (reading them from ZooKeeper or a dump).
"""
