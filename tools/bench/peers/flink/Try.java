import com.sun.management.OperatingSystemMXBean;
import java.lang.management.ManagementFactory;
import java.nio.file.Path;
import java.util.concurrent.TimeUnit;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.table.api.EnvironmentSettings;
import org.apache.flink.table.api.TableEnvironment;

/**
 * The bench's windows by Flink SQL, streaming, parallelism 1: Try INPUT.csv OUTPUT_DIR
 *
 * <p>Says {@code seconds=} from the first statement to the end of the job, without the start of
 * the virtual machine. Flink's CSV format knows no header: it is taken as a reading of the year
 * 1970 of a device "device", and left out of the result.
 */
public final class Try {
    public static void main(String[] args) throws Exception {
        Configuration config = new Configuration();
        config.setString("parallelism.default", "1");
        config.setString("table.local-time-zone", "UTC");
        config.setString("pipeline.object-reuse", "true");
        TableEnvironment env =
                TableEnvironment.create(
                        EnvironmentSettings.newInstance()
                                .inStreamingMode()
                                .withConfiguration(config)
                                .build());
        OperatingSystemMXBean system =
                (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
        long begin = System.nanoTime();
        long cpu = system.getProcessCpuTime();
        env.executeSql(
                "CREATE TABLE readings (device STRING, channel STRING, `time` STRING,"
                        + " `value` DOUBLE, ts AS CASE WHEN `time` = 'time'"
                        + " THEN TIMESTAMP '1970-01-01 00:00:00.000'"
                        + " ELSE TO_TIMESTAMP(`time`, 'yyyy-MM-dd''T''HH:mm:ss.SSSX') END,"
                        + " WATERMARK FOR ts AS ts - INTERVAL '5' SECOND)"
                        + " WITH ('connector' = 'filesystem', 'path' = '"
                        + Path.of(args[0]).toUri()
                        + "', 'format' = 'csv', 'csv.ignore-parse-errors' = 'true')");
        env.executeSql(
                "CREATE TABLE windows (device STRING, begins BIGINT, n BIGINT, mean DOUBLE,"
                        + " largest DOUBLE) WITH ('connector' = 'filesystem', 'path' = '"
                        + Path.of(args[1]).toUri()
                        + "', 'format' = 'csv')");
        env.executeSql(
                        "INSERT INTO windows SELECT device,"
                            + " TIMESTAMPDIFF(SECOND, TIMESTAMP '1970-01-01 00:00:00',"
                            + " window_start) * CAST(1000000 AS BIGINT),"
                            + " COUNT(*), AVG(`value`), MAX(`value`)"
                            + " FROM TABLE(TUMBLE(TABLE readings, DESCRIPTOR(ts), INTERVAL '1' MINUTE))"
                            + " WHERE device <> 'device'"
                            + " GROUP BY device, window_start, window_end")
                .await(1, TimeUnit.HOURS);
        System.out.println("seconds=" + (System.nanoTime() - begin) / 1e9);
        System.out.println("cpu_seconds=" + (system.getProcessCpuTime() - cpu) / 1e9);
        System.out.println("version=" + org.apache.flink.runtime.util.EnvironmentInformation.getVersion());
    }
}
