"""What of the damage that `verify` finds can be mended in the bucket itself, and mending it; deletes only what is proved to be garbage."""

from ledgerfs.vfs.repair.plan import DAY_SECONDS, plan_repair
from ledgerfs.vfs.repair.repairs import Outcome, Repair, RepairPlan

__all__ = ["DAY_SECONDS", "Outcome", "Repair", "RepairPlan", "plan_repair"]
