"""The service as Ray actors; alone imports ray."""
