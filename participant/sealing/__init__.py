"""Operations for members of a sealed run only: derive keys, pad updates, open sums and statistics."""
