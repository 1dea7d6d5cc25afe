import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.math.BigDecimal;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.paimon.data.BinaryRow;
import org.apache.paimon.data.BinaryString;
import org.apache.paimon.data.Decimal;
import org.apache.paimon.data.GenericArray;
import org.apache.paimon.data.GenericMap;
import org.apache.paimon.data.GenericRow;
import org.apache.paimon.data.InternalArray;
import org.apache.paimon.data.InternalMap;
import org.apache.paimon.data.InternalRow;
import org.apache.paimon.data.Timestamp;
import org.apache.paimon.disk.IOManager;
import org.apache.paimon.fs.Path;
import org.apache.paimon.fs.local.LocalFileIO;
import org.apache.paimon.index.HashBucketAssigner;
import org.apache.paimon.reader.RecordReader;
import org.apache.paimon.schema.Schema;
import org.apache.paimon.schema.SchemaManager;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.paimon.table.BucketMode;
import org.apache.paimon.table.FileStoreTable;
import org.apache.paimon.table.FileStoreTableFactory;
import org.apache.paimon.table.Table;
import org.apache.paimon.table.sink.RowPartitionKeyExtractor;
import org.apache.paimon.table.sink.StreamTableCommit;
import org.apache.paimon.table.sink.StreamTableWrite;
import org.apache.paimon.table.sink.StreamWriteBuilder;
import org.apache.paimon.table.source.DataSplit;
import org.apache.paimon.table.source.ReadBuilder;
import org.apache.paimon.table.source.Split;
import org.apache.paimon.table.source.StreamTableScan;
import org.apache.paimon.table.source.TableRead;
import org.apache.paimon.types.ArrayType;
import org.apache.paimon.types.DataField;
import org.apache.paimon.types.DataType;
import org.apache.paimon.types.DataTypeJsonParser;
import org.apache.paimon.types.DecimalType;
import org.apache.paimon.types.MapType;
import org.apache.paimon.types.RowKind;
import org.apache.paimon.types.RowType;

/**
 * Paimon's Java core, asked by lines of JSON: {"do": "create" | "read" | "changes" | "write" | "tag" |
 * "rollback", …}. Each is answered by one line: {"result": …} or {"error": …}.
 *
 * <p>Values: floating point numbers are the hexadecimal bits of a double, decimals text, bytes
 * hexadecimal, dates days, times milliseconds, timestamps [milliseconds, nanoseconds above], rows
 * and arrays lists, maps lists of pairs.
 *
 * <p>Compiled by Janino, which knows neither lambdas nor what type arguments make of a result.
 */
public class Driver {
    private static final ObjectMapper JSON = new ObjectMapper();
    private final String scratch;
    private final Map<Path, Writer> writers = new HashMap<>();

    private Driver(String scratch) {
        this.scratch = scratch;
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        System.setOut(System.err);
        Driver driver = new Driver(arguments[0]);
        BufferedReader requests =
                new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            Map<String, Object> answer = new HashMap<>();
            try {
                answer.put("result", driver.answer(JSON.readTree(line)));
            } catch (Throwable error) {
                error.printStackTrace();
                answer.put("error", describe(error));
            }
            answers.println(JSON.writeValueAsString(answer));
        }
    }

    private static String describe(Throwable error) {
        StringBuilder text = new StringBuilder();
        for (Throwable cause = error; cause != null; cause = cause.getCause()) {
            text.append(text.length() == 0 ? "" : "; because ").append(cause);
        }
        return text.toString();
    }

    private Object answer(JsonNode request) throws Exception {
        Path path = new Path(request.get("table").asText());
        String what = request.get("do").asText();
        if (what.equals("create")) {
            create(path, request);
            return null;
        }
        FileStoreTable table = FileStoreTableFactory.create(LocalFileIO.create(), path);
        if (request.hasNonNull("branch")) {
            table = table.switchToBranch(request.get("branch").asText());
        }
        switch (what) {
            case "read":
                return read(table, request);
            case "changes":
                return changes(table, request.get("from").asLong(), request.get("to").asLong());
            case "write":
                return write(path, table, request);
            case "tag":
                table.createTag(request.get("tag").asText(), request.get("snapshot").asLong());
                return null;
            case "rollback":
                table.rollbackTo(request.get("tag").asText());
                return null;
            default:
                throw new IllegalArgumentException(what);
        }
    }

    private static void create(Path path, JsonNode request) throws Exception {
        Schema.Builder schema = Schema.newBuilder();
        for (JsonNode column : request.get("columns")) {
            DataType type = DataTypeJsonParser.parseDataType(at(column, 1));
            schema.column(at(column, 0).asText(), type);
        }
        schema.primaryKey(texts(request.get("primary_keys")));
        schema.partitionKeys(texts(request.get("partition_keys")));
        for (Iterator names = request.get("options").fieldNames(); names.hasNext(); ) {
            String name = (String) names.next();
            schema.option(name, request.get("options").get(name).asText());
        }
        new SchemaManager(LocalFileIO.create(), path).createTable(schema.build());
    }

    private static JsonNode at(JsonNode list, int index) {
        return (JsonNode) list.get(index);
    }

    private static List<String> texts(JsonNode list) {
        List<String> found = new ArrayList<>();
        for (JsonNode item : list) {
            found.add(item.asText());
        }
        return found;
    }

    /** The rows of a snapshot or a tag. */
    private Object read(FileStoreTable whole, JsonNode request) throws Exception {
        Table table = whole;
        if (request.hasNonNull("snapshot")) {
            table = whole.copy(Map.of("scan.snapshot-id", request.get("snapshot").asText()));
        } else if (request.hasNonNull("tag")) {
            table = whole.copy(Map.of("scan.tag-name", request.get("tag").asText()));
        }
        ReadBuilder builder = table.newReadBuilder();
        List<Object> rows = new ArrayList<>();
        for (Split split : builder.newScan().plan().splits()) {
            collect(builder.newRead(), split, table.rowType(), null, rows);
        }
        return rows;
    }

    /** What a streaming job would see: [snapshot, kind, values…], a row each. */
    private Object changes(FileStoreTable whole, long from, long to) throws Exception {
        Map<String, String> start = new HashMap<>();
        start.put("scan.mode", "from-snapshot");
        start.put("scan.snapshot-id", Long.toString(from));
        Table table = whole.copyWithoutTimeTravel(start);
        ReadBuilder builder = table.newReadBuilder();
        StreamTableScan scan = builder.newStreamScan();
        List<Object> rows = new ArrayList<>();
        while (scan.checkpoint() == null || scan.checkpoint() <= to) {
            for (Split split : scan.plan().splits()) {
                long snapshot = ((DataSplit) split).snapshotId();
                if (snapshot <= to) {
                    collect(builder.newRead(), split, table.rowType(), snapshot, rows);
                }
            }
        }
        return rows;
    }

    private void collect(TableRead read, Split split, RowType type, Long snapshot, List<Object> rows)
            throws Exception {
        IOManager files = IOManager.create(scratch);
        RecordReader reader = read.withIOManager(files).createReader(split);
        RecordReader.RecordIterator batch = reader.readBatch();
        for (; batch != null; batch = reader.readBatch()) {
            Object next = batch.next();
            for (; next != null; next = batch.next()) {
                InternalRow row = (InternalRow) next;
                List<Object> values = new ArrayList<>();
                if (snapshot != null) {
                    values.add(snapshot);
                    values.add(row.getRowKind().shortString());
                }
                values.addAll(plainRow(row, type));
                rows.add(values);
            }
            batch.releaseBatch();
        }
        reader.close();
        files.close();
    }

    /** Writes and commits rows ([kind, values…]); the newest snapshot after that. */
    private Object write(Path path, FileStoreTable table, JsonNode request) throws Exception {
        Writer writer = (Writer) writers.remove(path);
        if (writer == null) {
            writer = new Writer(table, request.get("user").asText(), scratch);
        }
        writer.commit(request);
        if (request.get("stay").asBoolean()) {
            writers.put(path, writer);
        } else {
            writer.close();
        }
        return table.snapshotManager().latestSnapshotId();
    }

    /** Writes and commits to one table. */
    private static class Writer {
        private final FileStoreTable table;
        private final StreamTableWrite write;
        private final StreamTableCommit commit;
        private final IOManager files;
        private final RowPartitionKeyExtractor keys;
        private final HashBucketAssigner assigner;

        Writer(FileStoreTable table, String user, String scratch) {
            StreamWriteBuilder builder = table.newStreamWriteBuilder().withCommitUser(user);
            this.table = table;
            this.keys = new RowPartitionKeyExtractor(table.schema());
            this.assigner = table.bucketMode() == BucketMode.HASH_DYNAMIC ? assigner(user) : null;
            this.files = IOManager.create(scratch);
            this.write = builder.newWrite();
            this.commit = builder.newCommit();
            write.withIOManager(files);
        }

        void commit(JsonNode request) throws Exception {
            Map<BinaryRow, Set<Integer>> buckets = new LinkedHashMap<>();
            for (JsonNode item : request.get("rows")) {
                InternalRow row = row(item, table.rowType());
                note(buckets, write.getPartition(row).copy(), put(row));
            }
            if (request.get("full_compact").asBoolean()) {
                for (Split split : table.newReadBuilder().newScan().plan().splits()) {
                    note(buckets, ((DataSplit) split).partition(), ((DataSplit) split).bucket());
                }
                for (BinaryRow of : buckets.keySet()) {
                    for (Object bucket : (Set) buckets.get(of)) {
                        write.compact(of, (Integer) bucket, true);
                    }
                }
            }
            long identifier = request.get("identifier").asLong();
            if (assigner != null) {
                assigner.prepareCommit(identifier);
            }
            commit.commit(identifier, write.prepareCommit(true, identifier));
        }

        /** Writes a row; its bucket. */
        private int put(InternalRow row) throws Exception {
            if (assigner == null) {
                write.write(row);
                return write.getBucket(row);
            }
            int hash = keys.trimmedPrimaryKey(row).hashCode();
            int bucket = assigner.assign(keys.partition(row).copy(), hash);
            write.write(row, bucket);
            return bucket;
        }

        /** Finds buckets, as the one assigner of a job of one writer. */
        private HashBucketAssigner assigner(String user) {
            return new HashBucketAssigner(
                    table.snapshotManager(),
                    user,
                    table.store().newIndexFileHandler(),
                    1,
                    1,
                    0,
                    table.coreOptions().dynamicBucketTargetRowNum());
        }

        private static void note(Map<BinaryRow, Set<Integer>> buckets, BinaryRow of, int bucket) {
            if (!buckets.containsKey(of)) {
                buckets.put(of, new HashSet<>());
            }
            ((Set) buckets.get(of)).add(bucket);
        }

        void close() throws Exception {
            write.close();
            commit.close();
            files.close();
        }
    }

    private static InternalRow row(JsonNode item, RowType type) {
        GenericRow row = new GenericRow(rowKind(at(item, 0).asText()), type.getFieldCount());
        for (int index = 0; index < type.getFieldCount(); index++) {
            row.setField(index, internal(at(item, index + 1), type.getTypeAt(index)));
        }
        return row;
    }

    private static RowKind rowKind(String text) {
        for (RowKind kind : RowKind.values()) {
            if (kind.shortString().equals(text)) {
                return kind;
            }
        }
        throw new IllegalArgumentException(text);
    }

    private static Object internal(JsonNode value, DataType type) {
        if (value.isNull()) {
            return null;
        }
        switch (type.getTypeRoot()) {
            case BOOLEAN:
                return value.asBoolean();
            case TINYINT:
                return (byte) value.asInt();
            case SMALLINT:
                return (short) value.asInt();
            case INTEGER:
            case DATE:
            case TIME_WITHOUT_TIME_ZONE:
                return value.asInt();
            case BIGINT:
                return value.asLong();
            case FLOAT:
                return (float) fromBits(value.asText());
            case DOUBLE:
                return fromBits(value.asText());
            case DECIMAL:
                DecimalType decimal = (DecimalType) type;
                return Decimal.fromBigDecimal(
                        new BigDecimal(value.asText()), decimal.getPrecision(), decimal.getScale());
            case CHAR:
            case VARCHAR:
                return BinaryString.fromString(value.asText());
            case BINARY:
            case VARBINARY:
                return fromHex(value.asText());
            case TIMESTAMP_WITHOUT_TIME_ZONE:
            case TIMESTAMP_WITH_LOCAL_TIME_ZONE:
                return Timestamp.fromEpochMillis(at(value, 0).asLong(), at(value, 1).asInt());
            case ARRAY:
                return new GenericArray(internals(value, ((ArrayType) type).getElementType()));
            case MAP:
                MapType map = (MapType) type;
                Map<Object, Object> entries = new LinkedHashMap<>();
                for (JsonNode pair : value) {
                    entries.put(
                            internal(at(pair, 0), map.getKeyType()),
                            internal(at(pair, 1), map.getValueType()));
                }
                return new GenericMap(entries);
            case ROW:
                GenericRow row = new GenericRow(((RowType) type).getFieldCount());
                for (int index = 0; index < row.getFieldCount(); index++) {
                    row.setField(index, internal(at(value, index), ((RowType) type).getTypeAt(index)));
                }
                return row;
            default:
                throw new IllegalArgumentException(type.toString());
        }
    }

    private static Object[] internals(JsonNode values, DataType type) {
        Object[] found = new Object[values.size()];
        for (int index = 0; index < found.length; index++) {
            found[index] = internal(at(values, index), type);
        }
        return found;
    }

    private static Object plain(Object value, DataType type) {
        if (value == null) {
            return null;
        }
        switch (type.getTypeRoot()) {
            case FLOAT:
                return bits((Float) value);
            case DOUBLE:
                return bits((Double) value);
            case DECIMAL:
                return ((Decimal) value).toBigDecimal().toPlainString();
            case CHAR:
            case VARCHAR:
                return value.toString();
            case BINARY:
            case VARBINARY:
                return hex((byte[]) value);
            case TIMESTAMP_WITHOUT_TIME_ZONE:
            case TIMESTAMP_WITH_LOCAL_TIME_ZONE:
                Timestamp timestamp = (Timestamp) value;
                return List.of(timestamp.getMillisecond(), timestamp.getNanoOfMillisecond());
            case ARRAY:
                return plainArray((InternalArray) value, ((ArrayType) type).getElementType());
            case MAP:
                InternalMap map = (InternalMap) value;
                List<Object> keys = plainArray(map.keyArray(), ((MapType) type).getKeyType());
                List<Object> values = plainArray(map.valueArray(), ((MapType) type).getValueType());
                List<Object> pairs = new ArrayList<>();
                for (int index = 0; index < keys.size(); index++) {
                    List<Object> pair = new ArrayList<>();
                    pair.add(keys.get(index));
                    pair.add(values.get(index));
                    pairs.add(pair);
                }
                return pairs;
            case ROW:
                return plainRow((InternalRow) value, (RowType) type);
            default:
                return value;
        }
    }

    private static List<Object> plainRow(InternalRow row, RowType type) {
        List<Object> values = new ArrayList<>();
        int index = 0;
        for (DataField field : type.getFields()) {
            Object value = InternalRow.createFieldGetter(field.type(), index++).getFieldOrNull(row);
            values.add(plain(value, field.type()));
        }
        return values;
    }

    private static List<Object> plainArray(InternalArray array, DataType type) {
        InternalArray.ElementGetter getter = InternalArray.createElementGetter(type);
        List<Object> values = new ArrayList<>();
        for (int index = 0; index < array.size(); index++) {
            values.add(plain(getter.getElementOrNull(array, index), type));
        }
        return values;
    }

    private static String bits(double value) {
        return String.format("%016x", Double.doubleToLongBits(value));
    }

    private static double fromBits(String text) {
        return Double.longBitsToDouble(Long.parseUnsignedLong(text, 16));
    }

    private static String hex(byte[] bytes) {
        StringBuilder text = new StringBuilder();
        for (byte one : bytes) {
            text.append(String.format("%02x", one));
        }
        return text.toString();
    }

    private static byte[] fromHex(String text) {
        byte[] bytes = new byte[text.length() / 2];
        for (int index = 0; index < bytes.length; index++) {
            bytes[index] = (byte) Integer.parseInt(text.substring(2 * index, 2 * index + 2), 16);
        }
        return bytes;
    }
}
