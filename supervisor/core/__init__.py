"""The rules: pure decisions over values, without files, clocks or chance."""
