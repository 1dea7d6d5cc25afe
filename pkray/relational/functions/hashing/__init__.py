"""Functions that hash values.

- **digest** (`digests`): of bytes, in hexadecimal digits: MD5, SHA; and CRC-32.
- **row hash** (`rows`): pkray's own, of values of any type; samples and splits choose rows by
  it, so that what it gives never changes.
- **chained hash** (`chained`): Murmur3 and xxHash64 as Spark has them, bit for bit.
"""
