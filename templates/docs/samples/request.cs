using System;
using System.Net.Http;
using System.Text;
using System.Threading.Tasks;

class Sample
{
    static void Main() => Send().GetAwaiter().GetResult();

    static async Task Send()
    {
        var request = new HttpRequestMessage(new HttpMethod({method}), {url});
        request.Headers.Add("Authorization", "Bearer " + Environment.GetEnvironmentVariable("PETSTORE_KEY"));
        request.Headers.Add("Idempotency-Key", Guid.NewGuid().ToString());
        request.Headers.Add({name}, {value});
        request.Content = new StringContent({body}, Encoding.UTF8, "application/json");
        var response = await new HttpClient().SendAsync(request);
        Console.WriteLine((int)response.StatusCode + " " + await response.Content.ReadAsStringAsync());
    }
}
