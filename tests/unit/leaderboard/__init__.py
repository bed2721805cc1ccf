"""Claims about the leaderboard."""
