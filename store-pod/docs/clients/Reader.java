// Reads a store with Java 17 or newer. It needs no libraries: a row is its JSON text.
// java Reader.java URL STORE get KEY, or scan PREFIX; QSS_POSITION is the position to begin with.
import java.io.IOException;
import java.net.*;
import java.net.http.*;
import java.nio.charset.StandardCharsets;
import java.nio.file.*;
import java.time.Duration;
import java.util.List;
import java.util.function.Consumer;
import java.util.regex.*;

public final class Reader {
    private static final String NDJSON = "application/x-ndjson";
    private static final Pattern CODE = Pattern.compile("\"(?:code|reason)\":\"(\\w+)\"");
    private static final Pattern CURSOR = Pattern.compile("\"cursor\":\"([^\"]+)\"}");
    private static final Pattern RETRY = Pattern.compile("\"retryAfterMs\":(\\d+)");
    // A partition is on its way to another pod.
    private static final List<String> MOVING = List.of("NOT_PRESENT", "NOT_ACTIVE", "STALE_EPOCH");
    private final HttpClient http = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();
    private final String url, store, tokenFile;
    private final long deadlineMs;
    String position; // Of the last row: the next answer is at least as new.

    Reader(String url, String store, String tokenFile, String position, long deadlineMs) {
        this.url = url;
        this.store = store;
        this.tokenFile = tokenFile;
        this.position = position;
        this.deadlineMs = deadlineMs;
    }
    /** The row of a key as JSON, or null where the store has none. */
    String get(String key) throws Exception {
        var answer = ask("/" + encode(key), "", "application/json", System.currentTimeMillis());
        position = answer.headers().firstValue("Queryable-State-Position").orElse(position);
        return answer.statusCode() == 200 ? answer.body() : null;
    }
    /** Gives each row whose key begins with the prefix to `take`, page by page. */
    void scan(String prefix, int limit, Consumer<String> take) throws Exception {
        String cursor = "";
        for (long started = System.currentTimeMillis(); cursor != null; ) {
            String failure = null, next = null;
            String page = ask("", "&prefix=" + encode(prefix) + "&limit=" + limit + cursor, NDJSON, started).body();
            for (String line : page.lines().toList()) {
                if (line.startsWith("{\"key\":")) { take.accept(line); continue; }
                if (line.contains("\"failure\":{")) failure = line; // The cursor asks for it again.
                next = first(CURSOR, line); // That of the last partition goes on with all that is left.
            }
            if (failure == null || page.startsWith("{\"key\":")) started = System.currentTimeMillis();
            if (failure != null) pause(failure, started);
            cursor = next == null ? null : "&cursor=" + next;
        }
    }
    private HttpResponse<String> ask(String path, String parameters, String media, long started) throws Exception {
        if (position != null) parameters += "&positionBound=" + position;
        var address = URI.create(url + "/state/stores/" + store + path + "?" + parameters.replaceFirst("^&", ""));
        for (;; ) {
            var left = Duration.ofMillis(Math.max(1000, started + deadlineMs - System.currentTimeMillis()));
            var request = HttpRequest.newBuilder(address).timeout(left).header("Accept", media);
            if (tokenFile != null)
                request.header("Authorization", "Bearer " + Files.readString(Path.of(tokenFile)).strip());
            try {
                var answer = http.send(request.build(), HttpResponse.BodyHandlers.ofString());
                if (answer.statusCode() == 200 || "KEY_NOT_FOUND".equals(first(CODE, answer.body()))) return answer;
                pause(answer.body(), started);
            } catch (IOException error) {
                pause("{\"code\":\"UNREACHABLE\",\"retryAfterMs\":100} " + error, started);
            }
        }
    }
    /** Waits before the next try, or throws: the failure lasts, or the deadline is near. */
    private void pause(String failure, long started) throws InterruptedException {
        long waited = System.currentTimeMillis() - started;
        String retry = first(RETRY, failure);
        long longer = Math.max(retry == null ? 100 : Long.parseLong(retry), Math.min(waited, 1000));
        boolean passes = retry != null || MOVING.contains(first(CODE, failure));
        if (!passes || waited + longer > deadlineMs)
            throw new IllegalStateException(first(CODE, failure) + ": " + failure);
        if (waited > 1000) System.err.println("waiting for " + store + ": " + failure);
        Thread.sleep(longer);
    }
    private static String encode(String text) {
        return URLEncoder.encode(text, StandardCharsets.UTF_8).replace("+", "%20");
    }
    private static String first(Pattern pattern, String text) {
        Matcher found = pattern.matcher(text);
        return found.find() ? found.group(1) : null;
    }
    public static void main(String[] args) throws Exception {
        var set = System.getenv();
        var deadlineMs = 1000 * Long.parseLong(set.getOrDefault("QSS_DEADLINE_S", "30"));
        var reader = new Reader(args[0], args[1], set.get("QSS_TOKEN_FILE"), set.get("QSS_POSITION"), deadlineMs);
        try {
            if (args[2].equals("get")) System.out.println(reader.get(args[3]));
            else reader.scan(args[3], Integer.parseInt(set.getOrDefault("QSS_LIMIT", "1000")), System.out::println);
            if (args[2].equals("get")) System.err.println("QSS_POSITION=" + reader.position);
        } catch (IllegalStateException error) {
            System.err.println(error.getMessage());
            System.exit(1);
        }
    }
}
