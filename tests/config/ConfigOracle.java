// Asks Apache Kafka's own definitions what they make of a value: lines "set <tab> key <tab> value" in,
// lines "ok <tab> text" or "error <tab> message" out. Backslash escapes stand for control characters.
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Map;

import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.coordinator.group.GroupConfig;
import org.apache.kafka.server.config.AbstractKafkaConfig;
import org.apache.kafka.storage.internals.log.LogConfig;

public class ConfigOracle {
    public static void main(String[] args) throws Exception {
        Map<String, Map<String, ConfigDef.ConfigKey>> sets = Map.of(
            "broker", AbstractKafkaConfig.CONFIG_DEF.configKeys(),
            "topic", LogConfig.configKeys(),
            "group", GroupConfig.CONFIG_DEF.configKeys());
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] parts = line.split("\t", 3);
            ConfigDef.ConfigKey key = sets.get(parts[0]).get(parts[1]);
            try {
                ConfigDef alone = new ConfigDef().define(key);
                Object value = alone.parse(Map.of(key.name, parts[2].translateEscapes())).get(key.name);
                out.println("ok\t" + ConfigDef.convertToString(value, key.type));
            } catch (Exception e) {
                out.println("error\t" + e.getMessage());
            }
        }
        out.flush();
    }
}
