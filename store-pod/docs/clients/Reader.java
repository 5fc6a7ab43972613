// Reads a store with Java 17 or newer. It needs no libraries: a row is its JSON text.
// java Reader.java URL STORE get KEY, or scan PREFIX; QSS_POSITION is the position to begin with.
import java.net.*;
import java.net.http.*;
import java.nio.charset.StandardCharsets;
import java.nio.file.*;
import java.time.Duration;
import java.util.regex.Pattern;

public final class Reader {
    static final String TOKEN_FILE = System.getenv("QSS_TOKEN_FILE"), POSITION = System.getenv("QSS_POSITION");
    static final long DEADLINE_MS = 1000 * Long.parseLong(System.getenv().getOrDefault("QSS_DEADLINE_S", "30"));
    static final HttpClient HTTP = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();

    public static void main(String[] args) throws Exception {
        String text = URLEncoder.encode(args[3], StandardCharsets.UTF_8).replace("+", "%20");
        String address = args[0] + "/state/stores/" + args[1], bound = POSITION == null ? "" : "&positionBound=" + POSITION;
        if (args[2].equals("scan")) {
            scan(address + "?limit=" + System.getenv().getOrDefault("QSS_LIMIT", "1000") + "&prefix=" + text + bound, "");
        } else { // The row of a key, or null where the store has none.
            var answer = ask(address + "/" + text + "?timeout=10" + bound, System.currentTimeMillis());
            System.out.println(answer.statusCode() == 200 ? answer.body() : "null");
            System.err.println("QSS_POSITION=" + answer.headers().firstValue("Queryable-State-Position").get());
        }
    }
    /** Prints all rows, page by page. */
    static void scan(String question, String cursor) throws Exception {
        for (long started = System.currentTimeMillis(); cursor != null; ) {
            String page = ask(question + cursor.replace("\"cursor\":\"", "&cursor="), started).body();
            page.lines().filter(line -> line.startsWith("{\"key\":")).forEach(System.out::println);
            String failure = first("(?m)^(\\{\"partition\":.*\"failure\":\\{.*)", page);
            if (failure == null || page.startsWith("{\"key\":")) started = System.currentTimeMillis();
            if (failure != null) pause(failure, started); // The cursor asks for it again.
            cursor = first("(\"cursor\":\"[^\"]+)\"\\}\\s*\\z", page); // That of the last partition.
        }
    }
    static HttpResponse<String> ask(String url, long started) throws Exception {
        for (;; ) {
            var left = Duration.ofMillis(Math.max(1000, started + DEADLINE_MS - System.currentTimeMillis()));
            var request = HttpRequest.newBuilder(URI.create(url)).timeout(left).header("Accept", "application/x-ndjson, */*;q=0.5");
            if (TOKEN_FILE != null) request.header("Authorization", "Bearer " + Files.readString(Path.of(TOKEN_FILE)).strip());
            var sent = HTTP.sendAsync(request.build(), HttpResponse.BodyHandlers.ofString());
            String text = sent.handle((answer, error) -> error == null ? answer.body() : "{\"code\":\"UNREACHABLE\"} " + error).join();
            if (first("^\\{(\"key\":|\"partition\":|.*\"code\":\"KEY_NOT_FOUND\")", text) != null) return sent.join();
            pause(text, started);
        }
    }
    /** Waits before the next try, longer each time. Throws if the failure lasts or the deadline is near. */
    static void pause(String failure, long started) throws InterruptedException {
        // A partition is on its way to another pod, or no pod answers.
        String passing = "\"(?:code|reason)\":\"(?:NOT_PRESENT|NOT_ACTIVE|STALE_EPOCH|UNREACHABLE)\"";
        String least = first("\"retryAfterMs\":(\\d+)", failure.replaceFirst(passing, "\"retryAfterMs\":100"));
        long waited = System.currentTimeMillis() - started;
        long longer = Math.max(least == null ? DEADLINE_MS + 1 : Long.parseLong(least), Math.min(waited, 1000));
        if (waited + longer > DEADLINE_MS) throw new IllegalStateException(failure);
        if (waited > 1000) System.err.println("waiting: " + failure);
        Thread.sleep(longer);
    }
    /** The first group of a pattern in a text, or null. */
    static String first(String pattern, String text) {
        return Pattern.compile(pattern).matcher(text).results().map(one -> one.group(1)).findFirst().orElse(null);
    }
}
