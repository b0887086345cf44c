"""Repair the damage that can be repaired from the bucket alone; deletes only proven garbage."""

from ledgerfs.catalog.repairs import Repair
from ledgerfs.repair.plan import DAY_SECONDS, RepairOutcome, RepairPlan, plan_repair

__all__ = ["DAY_SECONDS", "Repair", "RepairOutcome", "RepairPlan", "plan_repair"]
