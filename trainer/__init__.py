"""The reference trainer: a small GPT whose resume is exact."""
