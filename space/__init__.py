"""The leaderboard Space."""
