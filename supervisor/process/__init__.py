"""The world as events: the trainer process, its reports, signals and the service manager."""
