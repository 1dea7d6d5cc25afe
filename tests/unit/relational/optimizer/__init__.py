"""Plans that give the same rows with less work."""
