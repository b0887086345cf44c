"""Repairing the damage that can be repaired from the bucket alone; deletes only what is proved to be garbage."""

from ledgerfs.ledgers.repairs import Repair
from ledgerfs.upkeep.repair.carrying_out import RepairOutcome, RepairPlan
from ledgerfs.upkeep.repair.plan import DAY_SECONDS, plan_repair

__all__ = ["DAY_SECONDS", "Repair", "RepairOutcome", "RepairPlan", "plan_repair"]
