"""Plans: a flat list of steps over one arena, and their file."""
