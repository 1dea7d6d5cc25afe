"""Where bytes live: local disks and object stores, and Parquet files on them."""
