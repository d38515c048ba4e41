import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse.BodyHandlers;
import java.util.UUID; // For the Idempotency-Key.

class Sample {
    public static void main(String[] arguments) throws Exception {
        var request = HttpRequest.newBuilder(URI.create({url}))
            .header("Authorization", "Bearer " + System.getenv("PETSTORE_KEY"))
            .header("Content-Type", "application/json")
            .header("Idempotency-Key", UUID.randomUUID().toString())
            .header({name}, {value})
            .method({method}, BodyPublishers.ofString({content}))
            .build();
        var response = HttpClient.newHttpClient().send(request, BodyHandlers.ofString());
        System.out.println(response.statusCode() + " " + response.body());
    }
}
