"""What of the damage that `verify` finds can be mended in the bucket itself, and mending it; deletes only what is proved to be garbage."""

from ledgerfs.ledgers.repairs import Repair
from ledgerfs.upkeep.repair.carrying_out import RepairOutcome, RepairPlan
from ledgerfs.upkeep.repair.plan import DAY_SECONDS, plan_repair

__all__ = ["DAY_SECONDS", "Repair", "RepairOutcome", "RepairPlan", "plan_repair"]
