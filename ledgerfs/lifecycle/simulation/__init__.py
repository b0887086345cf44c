"""What a policy would make of a cluster in the next days: arrivals as a dump has them, played forward."""
