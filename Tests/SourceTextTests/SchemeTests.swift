import Testing

/// Whether a URL is TLS is asked of `URLOrigin`: a compare of texts takes `HTTP://` for something else than libcurl does.
@Suite struct SchemeTests {
    @Test("no text is compared with a scheme outside of URLOrigin")
    func comparisons() throws {
        let files = try SourceFiles.texts(below: "Sources").filter {
            !$0.key.hasSuffix("/URLOrigin.swift") && !$0.key.contains("/LanyardEmulator")
        }
        for (path, source) in files {
            for line in SourceFiles.codeLines(of: source) where Self.compares(line.text) {
                Issue.record("\(path):\(line.number) compares a scheme: \(line.text)")
            }
        }
        #expect(files.count > 100)
    }

    @Test(
        "such lines are found, and what only writes a URL is not",
        arguments: [
            (#"if url.hasPrefix("http://") {"#, true), (#"scheme == "https","#, true),
            (#"parts.scheme != "http""#, true),
            (#"["https://", "http://"].first { url.hasPrefix($0) }"#, true),
            (#"let uri = "http://127.0.0.1:\(port)""#, false),
            (#"case .url: "an http:// or https:// URL""#, false),
        ])
    func kinds(_ line: String, _ isFound: Bool) { #expect(Self.compares(line[...]) == isFound) }

    private static func compares(_ line: Substring) -> Bool {
        let parts = [#"hasPrefix("http"#, #"== "http"#, #"!= "http"#, #"["http:"#, #"["https:"#, #"["http","#]
        return parts.contains { SourceFiles.holds(String(line), $0) } && !SourceFiles.holds(String(line), #""h2c""#)
    }
}
