"""Functions whose values are serialised sketches: rbm32, hll_sketch, theta_sketch."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap

from pkray.errors import MergeError
from pkray.extras import require_extra
from pkray.lsm.engines.functions.function import SkippingNulls
from pkray.lsm.engines.functions.hll_image import flaw_of_hll
from pkray.lsm.engines.segments import Ints, Segments
from pkray.lsm.keys.key_groups import taken
from pkray.options.fields import FieldOptions
from pkray.schema.types import DataType

if TYPE_CHECKING:
    from datasketches import hll_sketch


class _Sketch(SkippingNulls):
    """The union of the sketches that are not null; the only one of a key stays as it is."""

    roots: ClassVar[tuple[str, ...] | None] = ("VARBINARY", "BYTES")
    image_replaces = True
    kind: ClassVar[str]

    def merge_values(self, column: pa.Array, rows: Segments) -> pa.Array:
        values = taken(column, pa.array(rows.order[rows.starts]))
        several = rows.sizes > 1
        if several.any():
            places = zip(rows.starts[several], rows.ends[several], strict=True)
            united = [self._united(column, rows.order[start:end]) for start, end in places]
            values = pc.replace_with_mask(values, pa.array(several), pa.array(united, values.type))
        return rows.spread(values)

    def _united(self, column: pa.Array, numbers: Ints) -> bytes:
        try:
            return self.union(column[number].as_py() for number in numbers)
        # What the libraries raise at bytes that they cannot read.
        except (ValueError, IndexError, RuntimeError, MemoryError) as error:
            raise MergeError(
                f"column {self.field!r}: the aggregate function {self.name!r} was given bytes "
                f"that are no {self.kind}: {error}; write such values, or choose another function",
                field=self.field,
                function=self.name,
                reason=str(error),
            ) from error

    @abstractmethod
    def union(self, images: Iterable[bytes]) -> bytes:
        """Return the union of serialised sketches, oldest first, serialised.

        Raises:
            ValueError: bytes that are no such sketch; also IndexError, RuntimeError, MemoryError.
        """


class RoaringBitmap32(_Sketch):
    """Bitmaps of 32-bit integers, in the serialisation all RoaringBitmap libraries share."""

    name: ClassVar[str] = "rbm32"
    any_order: ClassVar[bool] = True
    kind: ClassVar[str] = "serialised RoaringBitmap of 32-bit integers"

    def union(self, images: Iterable[bytes]) -> bytes:
        bitmap = BitMap()
        for image in images:
            bitmap |= BitMap.deserialize(image)
        bitmap.run_optimize()
        return bitmap.serialize()


class _DataSketch(_Sketch):
    """A sketch of Apache DataSketches, whose library is an extra.

    Raises:
        MissingExtraError: it is not installed.
    """

    def __init__(self, field: str, data_type: DataType, options: FieldOptions) -> None:
        super().__init__(field, data_type, options)
        what = f"column {field!r}: the aggregate function {self.name!r}"
        require_extra("sketches", "datasketches", what)


class HllSketch(_DataSketch):
    """HLL sketches of Apache DataSketches; the result is compact, an HLL_4.

    A sketch with fewer registers than those before it makes the result as coarse, as in Paimon; the
    estimate of such a union may differ from the Java library's, within the error of the sketch.
    """

    name: ClassVar[str] = "hll_sketch"
    kind: ClassVar[str] = "HLL sketch of Apache DataSketches"

    def union(self, images: Iterable[bytes]) -> bytes:
        from datasketches import hll_union, tgt_hll_type

        sketches = _hll_sketches(images)
        united = next(sketches)
        for sketch in sketches:
            both = hll_union(sketch.lg_config_k)
            both.update(sketch)
            both.update(united)
            united = both.get_result(tgt_hll_type.HLL_4)
        image: bytes = united.serialize_compact()
        return image


class ThetaSketch(_DataSketch):
    """Compact theta sketches of Apache DataSketches; the result keeps up to 4096 hashes."""

    name: ClassVar[str] = "theta_sketch"
    any_order: ClassVar[bool] = True
    kind: ClassVar[str] = "compact theta sketch of Apache DataSketches"

    def union(self, images: Iterable[bytes]) -> bytes:
        from datasketches import compact_theta_sketch, theta_union

        united = theta_union(lg_k=12)
        for image in images:
            united.update(compact_theta_sketch.deserialize(image))
        result: bytes = united.get_result().serialize()
        return result


def _hll_sketches(images: Iterable[bytes]) -> Iterator[hll_sketch]:
    from datasketches import hll_sketch

    for image in images:
        flaw = flaw_of_hll(image)
        if flaw:
            raise ValueError(flaw)
        yield hll_sketch.deserialize(image)
