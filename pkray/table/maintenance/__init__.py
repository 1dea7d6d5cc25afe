"""What a user does with a table beyond reading and writing it."""
