import java.io.RandomAccessFile;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import org.apache.paimon.data.BinaryString;
import org.apache.paimon.data.GenericRow;
import org.apache.paimon.data.Timestamp;
import org.apache.paimon.disk.IOManager;
import org.apache.paimon.fs.Path;
import org.apache.paimon.fs.local.LocalFileIO;
import org.apache.paimon.table.FileStoreTable;
import org.apache.paimon.table.FileStoreTableFactory;
import org.apache.paimon.table.sink.StreamTableCommit;
import org.apache.paimon.table.sink.StreamTableWrite;
import org.apache.paimon.table.sink.StreamWriteBuilder;

/** Writes rows of raw columns to a table: its path, the folder of the columns, how many commits. */
public class Upserts {
    private static final int LETTERS = 16;

    public static void main(String[] arguments) throws Exception {
        FileStoreTable table =
                FileStoreTableFactory.create(LocalFileIO.create(), new Path(arguments[0]));
        String folder = arguments[1];
        int commits = Integer.parseInt(arguments[2]);
        StreamWriteBuilder builder = table.newStreamWriteBuilder().withCommitUser("bench");
        StreamTableWrite write = builder.newWrite();
        write.withIOManager(IOManager.create(folder));
        StreamTableCommit commit = builder.newCommit();
        for (int number = 0; number < commits; number++) {
            ByteBuffer k = column(folder, "k", number);
            ByteBuffer a = column(folder, "a", number);
            ByteBuffer b = column(folder, "b", number);
            ByteBuffer s = column(folder, "s", number);
            ByteBuffer ts = column(folder, "ts", number);
            int rows = k.remaining() / 8;
            for (int row = 0; row < rows; row++) {
                byte[] text = new byte[LETTERS];
                s.get(text);
                Object[] values = {
                    Long.valueOf(k.getLong()),
                    Long.valueOf(a.getLong()),
                    Double.valueOf(b.getDouble()),
                    BinaryString.fromBytes(text),
                    Timestamp.fromMicros(ts.getLong()),
                };
                write.write(GenericRow.of(values));
            }
            commit.commit((long) number, write.prepareCommit(number == commits - 1, (long) number));
        }
        write.close();
        commit.close();
    }

    private static ByteBuffer column(String folder, String name, int number) throws Exception {
        RandomAccessFile file = new RandomAccessFile(folder + "/" + name + number, "r");
        FileChannel channel = file.getChannel();
        ByteBuffer found = channel.map(FileChannel.MapMode.READ_ONLY, 0L, channel.size());
        file.close();
        return found.order(ByteOrder.LITTLE_ENDIAN);
    }
}
