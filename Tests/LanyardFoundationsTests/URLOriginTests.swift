import LanyardFoundations
import Testing

@Suite struct URLOriginTests {
    @Test(
        "a scheme has any case; the authority ends before path, query, fragment and backslash",
        arguments: [
            ("https://a", true, "a", ""), ("HTTPS://A:1/b?c#d", true, "A:1", "/b?c#d"),
            ("hTTp://[::1]:2/", false, "[::1]:2", "/"),
            ("http://u:p@h?q", false, "u:p@h", "?q"), ("http://h\\x", false, "h", "\\x"),
            ("http:///p", false, "", "/p"),
            ("http://", false, "", ""), ("HTTP://h#f", false, "h", "#f"),
        ] as [(String, Bool, String, String)])
    func parts(_ url: String, _ isTLS: Bool, _ authority: String, _ rest: String) throws {
        let origin = try #require(URLOrigin(of: url))
        #expect(origin.isTLS == isTLS && origin.authority == authority && origin.rest == rest)
        #expect(origin.scheme == (isTLS ? "https" : "http") && origin.defaultPort == (isTLS ? 443 : 80))
    }

    @Test(
        "anything else has no origin",
        arguments: [
            "", "h", "http", "http:", "http:h", "http:/h", "//h/p", "/http://h", " http://h", "\thttp://h",
            "ht\ttp://h",
            "ftp://h", "httpx://h", "https ://h", "unix:/p", "http%3A//h", "ｈttp://h",
        ])
    func none(_ url: String) { #expect(URLOrigin(of: url) == nil) }
}
