"""The files beside a run: ledger, samples, bandit state, checkpoints, archive, events."""
