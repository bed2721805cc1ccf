"""What only members of a sealed run can do: derive keys, pad updates, open sums and statistics."""
