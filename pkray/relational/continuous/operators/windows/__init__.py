"""What waits for event time.

``event_time`` says when a time has passed; ``waiting`` keeps rows in the order of their times until
it has.
"""
