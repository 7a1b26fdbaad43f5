"""Whether what a model says holds together: tokens, scores, a verdict, and rules over many."""
